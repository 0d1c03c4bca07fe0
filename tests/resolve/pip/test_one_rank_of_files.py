"""Of a release's files envspec takes the one that uv takes, and pip where uv agrees: both are asked, over generated
pages. docs/design/04-resolution.md has whose rule holds where they differ."""

import itertools
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from msgspec import Struct
from msgspec.structs import replace
from pip._internal.index.collector import LinkCollector
from pip._internal.index.package_finder import PackageFinder
from pip._internal.models.search_scope import SearchScope
from pip._internal.models.selection_prefs import SelectionPreferences
from pip._internal.models.target_python import TargetPython
from pip._internal.network.session import PipSession
from pip._vendor.packaging import _manylinux
from pip._vendor.packaging.tags import parse_tag
from resolutions import lock
from support.examples import examples
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel
from uv import find_uv_bin

from envspec.packages.tags import ReleaseFile, choose_file, takes_python
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.sources_needed import SourcesNeeded
from envspec.resolve.uv.program import find_uv

PYTHONS = ("cp312-cp312", "cp312-abi3", "cp39-abi3", "cp310-abi3", "cp312-none", "cp312-cp312t", "cp311-cp311",
           "cp313-cp313", "py3-none", "py312-none", "py2.py3-none")  # fmt: skip
ENDS = {
    "linux-64": ("manylinux1_x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_28_x86_64",
                 "manylinux_2_34_x86_64", "linux_x86_64", "musllinux_1_2_x86_64", "manylinux_2_28_aarch64"),
    "linux-aarch64": ("manylinux2014_aarch64", "manylinux_2_17_aarch64.manylinux2014_aarch64", "linux_aarch64",
                      "manylinux_2_28_aarch64", "manylinux_2_34_aarch64", "manylinux_2_28_x86_64"),
    "osx-arm64": ("macosx_11_0_arm64", "macosx_14_0_arm64", "macosx_10_9_universal2", "macosx_11_0_universal2",
                  "macosx_15_0_arm64", "macosx_12_0_x86_64", "macosx_13_0_universal2"),
    "osx-64": ("macosx_10_9_x86_64", "macosx_10_9_universal2", "macosx_12_0_x86_64", "macosx_10_9_intel"),
    "win-64": ("win_amd64", "win32", "win_arm64"),
}  # fmt: skip
OF_PIP = {"osx-arm64": ["macosx_14_0_arm64"], "osx-64": ["macosx_14_0_x86_64"], "win-64": ["win_amd64"]}
"""The platforms as pip is told them; Linux's are those that it lists with the target's glibc."""

NUMBERS = itertools.count()
OTHER = re.compile("-cp31[13]-|macosx_15")
"""What wants another Python or a newer macOS than a target's: docs/design has another rule than uv's for these."""


class Row(Struct, frozen=True):
    """A file of a release. `{}` in its name stands for a number that tells projects apart."""

    file: str
    requires_python: str | None
    yanked: str | None
    bare: bool = False
    """Its page has neither its hash nor its size."""


@st.composite
def releases(draw: st.DrawFn, platform: str) -> tuple[Row, ...]:
    rows = {}
    for _ in range(draw(st.integers(1, 6))):
        python = draw(st.sampled_from(PYTHONS))
        end = draw(st.sampled_from((*ENDS[platform], *(("any",) if "none" in python else ()))))
        name = draw(st.sampled_from(("ab{}_c", "ab{}_c", "Ab{}_c", "ab{}.c", "ab{}__c")))
        version = draw(st.sampled_from(("1.0", "1.0", "1", "1.0.0")))
        build = draw(st.sampled_from(("", "", "", "-1", "-2", "-10", "-2a")))
        source = draw(st.integers(0, 5)) == 0
        file = "ab{}_c-1.0.tar.gz" if source else f"{name}-{version}{build}-{python}-{end}.whl"
        said = draw(st.sampled_from((None, None, None, ">=3.8", "<3", "<3.12", ">=3.13")))
        yanked, bare = draw(st.sampled_from((None, None, None, "bad"))), draw(st.integers(0, 4)) == 0
        rows[file] = Row(file, said, yanked, bare)
    return tuple(rows.values())


def serve(index: Index, number: int, rows: tuple[Row, ...]) -> None:
    """A project whose newest release has these files, and an older one with a file for everybody."""
    index.add(wheel(f"ab{number}-c", "0.1"))
    for row in rows:
        made = (wheel if row.file.endswith(".whl") else sdist)(f"ab{number}-c", "1.0")
        file = row.file.format(number)
        index.add(own := replace(made, file=file, requires_python=row.requires_python), yanked=row.yanked)
        if row.bare:
            index.lie_about(own, "")


def of_uv(index: Index, numbers: range, platform: str, folder: Path, glibc: str = "2.28") -> list[str]:
    """The file that uv takes of each project."""
    index.asked.clear()
    (folder / "in.txt").write_text("\n".join(f"ab{number}-c" for number in numbers))
    uv = [find_uv_bin(), "pip", "compile", "in.txt", "--no-config", "--no-cache", "--index-url", index.url, "-q"]
    uv += ["--python", sys.executable, "--python-version", "3.12"]
    uv += ["--python-platform", Request(platform, "3.12", glibc, ()).uv_platform]
    variables = find_uv({"HOME": str(folder), "PATH": "/usr/bin:/bin"}).environment()
    done = subprocess.run(uv, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = [path.rpartition("/")[2].removesuffix(".metadata") for path in index.paths("^/files/")]
    of = {file.lower().removeprefix("ab").replace(".", "_").partition("_")[0]: file for file in read}
    return [of[str(n)] if _may_fit(of[str(n)], platform) else f"ab{n}_c-1.0.tar.gz" for n in numbers]


def _may_fit(file: str, platform: str) -> bool:
    """Of a source uv reads the METADATA in a wheel beside it, whoever that is for."""
    tags = parse_tag("-".join(file.removesuffix(".whl").split("-")[-3:])) if file.endswith(".whl") else None
    return tags is None or not tags.isdisjoint(_target(platform).get_sorted_tags())


def _target(platform: str) -> TargetPython:
    linux = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}.get(platform, "")
    of_linux = [*_manylinux.platform_tags([linux]), f"linux_{linux}"]
    return TargetPython(OF_PIP.get(platform, of_linux), (3, 12), implementation="cp")


def of_pip(index: Index, numbers: range, platform: str) -> list[str]:
    """The file that pip takes of each project."""
    return _chosen_by_pip(index, [f"ab{number}-c" for number in numbers], platform)


def _chosen_by_pip(index: Index, names: Sequence[str], platform: str) -> list[str]:
    links = LinkCollector(PipSession(), SearchScope.create([], [index.url], no_index=False))
    finder = PackageFinder.create(links, SelectionPreferences(allow_yanked=False), _target(platform))
    best = [finder.find_best_candidate(name).best_candidate for name in names]
    return [one.link.filename for one in best if one is not None]


def of_envspec(rows: tuple[Row, ...], platform: str) -> str:
    listed = (ReleaseFile(row.file, row.yanked is not None, row.requires_python) for row in rows)
    return (
        choose_file(listed, platform, "3.12", "2.28" if platform.startswith("linux") else None)
        or "ab{}_c-0.1-py3-none-any.whl"
    )


@pytest.mark.by_commit(3)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("platform", ENDS)
@settings(
    max_examples=examples(6, night=100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=[Phase.generate],
)
@given(data=st.data())
def test_it_is_uvs_choice_and_pips_where_they_agree(
    platform: str, data: st.DataObject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_manylinux, "_get_glibc_version", lambda: (2, 28))
    several = data.draw(st.lists(releases(platform), min_size=8, max_size=8))
    with Index() as index:
        for number, rows in enumerate(several):
            serve(index, 2 * number, rows)
            serve(index, 2 * number + 1, good(rows))
        every = range(2 * len(several))
        uvs, pips = of_uv(index, every, platform, tmp_path), of_pip(index, every, platform)
    for number, rows in enumerate(several):
        if uvs[2 * number] == pips[2 * number] and not _is_older(uvs[2 * number]):
            assert of_envspec(rows, platform).format(2 * number) == uvs[2 * number], rows
        # of what is neither yanked nor for another Python, it is uv's choice whether pip agrees or not
        assert of_envspec(good(rows), platform).format(2 * number + 1) == uvs[2 * number + 1], rows


@pytest.mark.slow
@pytest.mark.by_commit(4)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("platform", ENDS)
@settings(
    max_examples=examples(6, night=100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=[Phase.generate],
)
@given(data=st.data())
def test_a_source_is_needed_where_uv_takes_it_and_no_wheel_wants_a_newer_glibc(
    platform: str, data: st.DataObject, machine: Machine, index: Index, tmp_path: Path
) -> None:
    """Also beside wheels for other platforms: an older release isn't the answer there. uv has the newest glibc."""
    several = data.draw(st.lists(releases(platform), min_size=12, max_size=12, unique=True))
    first = next(NUMBERS) * len(several)
    numbers = range(first, first + len(several))
    for number, rows in zip(numbers, several, strict=True):
        free = (replace(row, requires_python=None, yanked=None) for row in rows if not OTHER.search(row.file))
        serve(index, number, (*free, Row("ab{}_c-1.0.tar.gz", None, None)))
    uvs = of_uv(index, numbers, platform, tmp_path, "2.40")
    machine.spec(cpu(*(f"ab{number}-c" for number in numbers), targets=f"[targets.a]\nplatform = '{platform}'\n"))
    try:
        lock(machine)
        needed: set[str] = set()
    except SourcesNeeded as error:
        needed = set(error.names)
    assert needed == {file.partition("_")[0] + "-c" for file in uvs if file.endswith(".tar.gz")}


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_glibc_counts_by_its_number_as_it_does_to_pip(
    data: st.DataObject, machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where uv has no name for it: uv lists some versions alone."""
    own = data.draw(st.integers(17, 49))
    monkeypatch.setattr(_manylinux, "_get_glibc_version", lambda: (2, own))
    first = next(NUMBERS) * 8
    for number in range(first, first + 8):
        index.add(wheel(f"glibc{number}", "0.1"))
        for minor in data.draw(st.sets(st.integers(own - 3, own + 2), min_size=1)):
            index.add(wheel(f"glibc{number}", "1.0", tag=f"py3-none-manylinux_2_{max(minor, 5)}_x86_64"))
    names = [f"glibc{number}" for number in range(first, first + 8)]
    machine.spec(cpu(*names, targets=f"[targets.a]\nplatform = 'linux-64'\nglibc = '2.{own}'\n"))
    ((*pins,),) = (target.pins for target in lock(machine))
    files = {pin.name: pin.artifact.file for pin in pins if pin.artifact}
    assert [files[name] for name in names] == _chosen_by_pip(index, names, "linux-64")


def good(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    return tuple(row for row in rows if not row.yanked and takes_python(row.requires_python or "", "3.12"))


def _is_older(file: str) -> bool:
    return "-0.1-" in file


OLD, NEW = "cp312-cp312-manylinux_2_17_x86_64", "cp312-cp312-manylinux_2_28_x86_64"
GOOD, BAD = (None, None), (None, "bad")
RELEASES: dict[str, tuple[dict[str, tuple[str | None, str | None]], int]] = {
    "a yanked file of a pinned release": ({f"ab_c-1.0-{NEW}.whl": BAD, f"ab_c-1.0-{OLD}.whl": GOOD}, 1),
    "one for another Python": ({f"ab_c-1.0-{NEW}.whl": ("<3", None), f"ab_c-1.0-{OLD}.whl": (">=3.8", None)}, 1),
    "build numbers": ({f"ab_c-1.0-{build}-{OLD}.whl": GOOD for build in (1, 10, 2)}, 1),
    "a name that isn't normalised": ({f"ab__c-1.0-{OLD}.whl": GOOD}, 0),
    "two of them": ({f"ab__c-1.0-{OLD}.whl": GOOD, f"Ab_c-1-{NEW}.whl": (None, None)}, 1),
    "a plain linux tag": ({"ab_c-1.0-cp312-cp312-linux_x86_64.whl": GOOD, f"ab_c-1.0-{OLD}.whl": GOOD}, 1),
}  # fmt: skip


@pytest.mark.e2e
@pytest.mark.parametrize("case", RELEASES)
def test_a_lock_has_it(case: str, machine: Machine, index: Index) -> None:
    rows, place = RELEASES[case]
    for file, (python, yanked) in rows.items():
        index.add(replace(wheel("ab-c", "1.0"), file=file, requires_python=python), yanked=yanked)
    machine.spec(cpu("ab-c==1.0"))
    ((pin,),) = (target.pins for target in lock(machine))
    assert pin.artifact is not None and pin.artifact.file == [*rows][place]
