"""Markers hold for a full version of Python where uv says so, and where `packaging` does."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from packaging.markers import Marker
from support.examples import examples
from support.index import Index
from support.packages import wheel
from uv import find_uv_bin

from envspec.packages.edges import ByExtra, Markers

COUNT = 20
VERSIONS = ("3.12", "3.12.0", "3.12.4", "3.12.9", "3.12.11", "3.13", "3.13.0", "3.11.14", "3")
TERMS = st.one_of(
    st.tuples(
        st.sampled_from(("python_full_version", "python_full_version", "implementation_version", "python_version")),
        st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
        st.sampled_from(VERSIONS),
    ),
    st.tuples(st.just("python_full_version"), st.just("~="), st.sampled_from(("3.12.4", "3.11.2", "3.12.9"))),
    st.tuples(st.just("python_full_version"), st.sampled_from(("==", "!=")), st.sampled_from(("3.12.*", "3.12.4.*"))),
).map(lambda one: f"{one[0]} {one[1]} '{one[2]}'")
MARKERS = st.lists(TERMS, min_size=1, max_size=2).map(" and ".join) | st.lists(TERMS, min_size=2, max_size=2).map(
    " or ".join
)


@pytest.fixture(scope="module")
def served() -> Iterator[Index]:
    with Index() as index:
        yield index.add(*(wheel(f"marked{number}", "1.0") for number in range(COUNT)))


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    markers=st.lists(MARKERS, min_size=COUNT, max_size=COUNT),
    python=st.sampled_from(("3.12.0", "3.12.3", "3.12.4", "3.12.9", "3.12.12", "3.11.14")),
)
def test_a_full_version_decides(markers: list[str], python: str, served: Index, tmp_path: Path) -> None:
    ours = {number for number, one in enumerate(markers) if Markers("linux-64", python).hold(f"a ; {one}")}
    minor = python.rpartition(".")[0]
    own = {"python_full_version": python, "python_version": minor, "implementation_version": python}
    assert ours == {number for number, one in enumerate(markers) if Marker(one).evaluate(own)}
    (tmp_path / "in.txt").write_text("\n".join(f"marked{n} ; {one}" for n, one in enumerate(markers)))
    asked = [find_uv_bin(), "pip", "compile", "in.txt", "--no-config", "--index-url", served.url, "--no-header", "-q"]
    asked += ["--python", sys.executable, "--python-version", python, "--python-platform", "x86_64-manylinux_2_28"]
    asked += ["--cache-dir", str(tmp_path / "cache"), "--no-annotate"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    uvs = {int(line.partition("==")[0].removeprefix("marked")) for line in done.stdout.split()}
    assert ours == uvs, [markers[number] for number in ours ^ uvs]


OF_EXTRAS = (
    *("extra == 'x'", "'x' == extra", "extra != 'x'", "extra == 'X'", "extra in 'x,y'", "extra not in 'x'"),
    *("'x' in extra", "'x' not in extra", "extra < 'x'", "extra <= 'x'", "'x' < extra", "extra >= 'x'", "extra ~= 'x'"),
    *("extra == extra", "extra == os_name", "'x' in extras", "'x' not in extras", "'x' in dependency_groups"),
)
COMPOUND = (
    *("extra in 'x' and os_name == 'nt'", "extra < 'x' and extra == 'x'", "extra not in 'x' or extra == 'x'"),
    *("extra == 'x' and (extra > 'x' or extra == 'z')", "(extra >= 'x') or (os_name == 'nt' and extra in 'x')"),
    *("os_name == \"extra == '\" and extra == 'x'", "os_name != \"extra == '\" and extra == 'x' and os_name != \"'\""),
)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("extra", ["", "x", "y", "z", "b"])
def test_an_extra_is_compared_by_two_operators(extra: str, served: Index, tmp_path: Path) -> None:
    """By any other than `==` and `!=` a comparison says nothing: it isn't judged anew for each extra."""
    markers = [*OF_EXTRAS, *COMPOUND]
    markers += (f"{one} {word} {other}" for one in OF_EXTRAS for word in ("and", "or") for other in OF_EXTRAS)
    lines = [f"of{number}; {marker}" for number, marker in enumerate(markers)]
    served.add(*(wheel(f"of{number}", "1.0") for number in range(len(lines))))
    served.add(wheel("top", "1.0", *lines, extras=["x", "y", "z", "b"]))
    (tmp_path / "in.txt").write_text(f"top[{extra}]" if extra else "top")
    asked = [find_uv_bin(), "pip", "compile", "in.txt", "--no-config", "--index-url", served.url, "--no-header", "-q"]
    asked += ["--python-platform", "x86_64-manylinux_2_28", "--python", sys.executable, "--no-annotate"]
    asked += ["--cache-dir", str(tmp_path / "cache"), "--python-version", "3.12"]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=True)
    uvs = {int(line.partition("==")[0].removeprefix("of")) for line in done.stdout.split() if line.startswith("of")}
    held = Markers("linux-64", "3.12.0")
    ours = {number for number, line in enumerate(lines) if held.hold(line, {extra} if extra else ())}
    assert uvs and ours == uvs, [markers[number] for number in ours ^ uvs]
    brought = {*ByExtra(lines).lines({extra})}
    assert {lines[number] for number in ours} <= brought | {line for line in lines if held.hold(line)}
