"""What METADATA of old releases says in its own way is read as uv reads it: uv is asked."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec.structs import replace
from stacks.recording import Recording
from support.examples import examples
from support.index import Index
from support.packages import wheel
from uv import find_uv_bin

from envspec.packages.edges import Markers
from envspec.packages.metadata import parse_metadata
from envspec.packages.python_range import binding_range
from envspec.packages.requirement import published_requirement
from envspec.packages.tags import takes_python
from envspec.resolve.uv.program import find_uv

VERSIONS = ("0.9", "1.0", "1.0.1", "1.1", "2.0", "2.1", "5.0", "5.0.1", "5.1")
KNOWN = (
    " (>dev)", "!=~5.0", ">='1.0'", '>="1.0"', ">=1.0.*", "<2.0.*", "<=1.0.*", ">1.0.*", ">=1.0<2.0", "==1.0*",
    "!=5.0*,!=5.1*", ">=1.0,", "(>=1.0,)", "<2.0,>dev", ">=1.0a1.0", ">=1.0.*,<2.0.*,!=1.1.*", ">=v1.0", "==1.0.0.*",
    "; python_version>='3.6.*'", "; python_version<'3.6.*'", "; python_version ~= '3.6.*'", "; 'a' == 'b'",
    "; python_version > '3.6.*' or sys_platform == 'win32'", "; python_version >= '3.6,<4' and sys_platform == 'win32'",
    "; (python_version == 'x') and (sys_platform == 'linux' or os_name == 'nt')",
    "; implementation_version not in '3.12'", "; python_full_version in '3.11 3.12'",
    " @ git+https://packages.example.org/d; extra == 'all'",
)  # fmt: skip
CLAUSES = st.tuples(
    st.sampled_from(("==", "!=", ">=", "<=", ">", "<", "~=", "!=~", "=>", "=")),
    st.sampled_from(("", " ", "'")),
    st.sampled_from(("1.0", "1", "5.0", "2.0a1", "1.0.post1", "dev", "1.0.0", "2.0.dev1", "v1.0")),
    st.sampled_from(("", "", ".*", "*", ".0", ".", "'")),
).map("".join)
TERMS = st.one_of(
    st.builds(
        "{} {} {!r}".format,
        st.sampled_from(("python_version", "python_full_version", "sys_platform", "implementation_version")),
        st.sampled_from(("==", "!=", ">=", "<", "~=", "in", "not in")),
        st.sampled_from(("3.6", "3.12", "3.13", "3.6.*", "3.12.*", "linux", "3.6,<4", "linux2 linux")),
    ),
    st.sampled_from(("os_name == 'posix'", "'a' == 'b'", "'linux' in sys_platform")),
)
JOINED = st.recursive(
    TERMS, lambda terms: st.builds("({} {} {})".format, terms, st.sampled_from(("and", "or")), terms), max_leaves=4
)
TEXTS = st.one_of(
    st.lists(CLAUSES, min_size=1, max_size=3).map(",".join),
    st.lists(CLAUSES, min_size=2, max_size=2).map("".join),
    st.builds("; {} {} {}".format, JOINED, st.sampled_from(("and", "or")), JOINED),
)


def compiled(names: Sequence[str], index: Index, folder: Path) -> dict[str, str]:
    """The versions that uv takes."""
    (folder / "in.txt").write_text("\n".join(names))
    uv = [find_uv_bin(), "pip", "compile", "in.txt", "--no-config", "--no-cache", "--index-url", index.url, "-q"]
    uv += ["--python", sys.executable, "--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_28"]
    uv += ["--no-header", "--no-annotate"]
    variables = find_uv({"HOME": str(folder), "PATH": "/usr/bin:/bin"}).environment()
    done = subprocess.run(uv, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split("==") for line in done.stdout.splitlines())


def of_uv(texts: Sequence[str], folder: Path) -> list[str | None]:
    """The version that uv takes by each requirement, "" where it doesn't hold; None where uv takes none."""
    with Index() as index:
        for number, text in enumerate(texts):
            index.add(wheel(f"p{number}", "1.0", f"d{number}x{text}"), wheel(f"p{number}", "0.1"))
            index.add(*(wheel(f"d{number}x", version) for version in VERSIONS))
        found = compiled([f"p{number}" for number in range(len(texts))], index, folder)
    return [found.get(f"d{number}x", "") if found[f"p{number}"] == "1.0" else None for number in range(len(texts))]


PYTHONS = (
    ">=3.13.*", ">=3.6.*", ">3.12.*", ">=3.6.*,!=3.9.*", ">='3.13'", ">='3.6'", ">=3.13,", ">=3.6,", ">=3.13<4",
    ">=3.6<4", ">=3.13.0a1.0", ">dev", ">= 3.13'", ">=3.6, !=3.0.*, !=3.1.*'", "!=~3.1,>=3.13", ">=v3.13",
    ">=3.12,>=3.13*", "3.6", "garbage", ">=x", ">3.12, ", "~=3.13.*", ">=3.6,<4;", "(>=3.13)", "",
)  # fmt: skip


@pytest.mark.slow
def test_a_requires_python_is_read_as_uv_reads_it(tmp_path: Path) -> None:
    """What refuses this Python sends uv back to a release that says nothing."""
    with Index() as index:
        for number, text in enumerate(PYTHONS):
            index.add(replace(wheel(f"p{number}", "1.0"), requires_python=text or None), wheel(f"p{number}", "0.1"))
        found = compiled([f"p{number}" for number in range(len(PYTHONS))], index, tmp_path)
    taken = {text: found[f"p{number}"] == "1.0" for number, text in enumerate(PYTHONS)}
    assert taken == {text: takes_python(text, "3.12.0") for text in PYTHONS}


def test_a_cap_in_an_old_spelling_is_held_in_a_lock() -> None:
    assert binding_range(">=2.7,!=3.0.*,<3.14.*", "3.12") == "!=3.0.*,<3.14,>=2.7"
    assert binding_range(">=3.6.*,", "3.12") is None
    assert binding_range("garbage", "3.12") is None


def of_envspec(text: str) -> str:
    if not Markers("linux-64", "3.12").hold(text):
        return ""
    specifier = published_requirement(text).specifier
    return next(version for version in reversed(VERSIONS) if specifier.contains(version))


@pytest.mark.slow
def test_known_spellings(tmp_path: Path) -> None:
    assert of_uv(KNOWN, tmp_path) == [of_envspec(f"d{text}") for text in KNOWN]


@pytest.mark.slow
@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=[Phase.generate],
)
@given(texts=st.lists(TEXTS, min_size=40, max_size=40))
def test_what_uv_reads_is_read_alike(texts: list[str], tmp_path: Path) -> None:
    for text, taken in zip(texts, of_uv(texts, tmp_path), strict=True):
        if taken is not None:
            assert of_envspec(f"d{text}") == taken, text


@pytest.mark.nightly
def test_what_the_recorded_packages_require_is_read_and_judged() -> None:
    """uv solved with these lines, so that a reader who stumbles over one contradicts it."""
    metadata = [parse_metadata(text) for text in Recording.load().metadata.values()]
    lines = {line for one in metadata for line in one.requires_dist}
    assert len(lines) > 10_000
    for machine in (Markers("linux-64", "3.12.4"), Markers("osx-arm64", "3.9.1"), Markers("win-64", "3.14.0")):
        assert {machine.hold(line) for line in lines} == {True, False}
    for line in lines:
        published_requirement(line)
    for python in {one.requires_python for one in metadata if one.requires_python}:
        assert any(takes_python(python, one) for one in ("2.7.18", *(f"3.{n}.0" for n in range(6, 15)))), python


@pytest.mark.parametrize("text", ["d >=", "d @ ; extra == 'x'", "d garbage", "d (>=1.0"])
def test_what_nobody_can_read_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        published_requirement(text)
