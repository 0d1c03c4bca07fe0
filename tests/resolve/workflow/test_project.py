"""A spec whose dependencies are those of a local pyproject.toml: locked, and stale when these change."""

import os
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine
from support.packages import wheel

pytestmark = pytest.mark.e2e

SPEC = "[env]\npython = '3.12'\nproject = {}\n[targets.cpu]\nplatform = 'linux-64'\n"
PROJECT = """\
[project]
name = "own"
version = "1.0"
dependencies = ["alpha"]
[project.optional-dependencies]
train = ["beta"]
"""


@pytest.fixture
def pyproject(machine: Machine, index: Index) -> Path:
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"), wheel("beta", "1.0"))
    path = machine.folder / "pyproject.toml"
    path.write_text(PROJECT)
    machine.spec(SPEC.format('".."'))
    return path


def test_its_dependencies_are_locked(machine: Machine, pyproject: Path) -> None:
    (target,) = machine.locked()
    assert [(pin.name, pin.direct) for pin in target.pins] == [("alpha", True)]
    machine.locked(spec=SPEC.format('{ path = "..", extras = ["train"] }'))
    assert machine.versions("cpu") == {"alpha": "2.0", "beta": "1.0"}
    assert machine.envspec("check").status == 0


TOOL = '[build-system]\nrequires = ["{}"]\n'


@pytest.mark.slow
def test_its_build_tool_comes_after_all_else(machine: Machine, index: Index, pyproject: Path) -> None:
    """The newest tool would take the dependency back."""
    index.add(wheel("tool", "81"), wheel("tool", "84"), wheel("alpha", "3.0", "tool<82"), wheel("aaa", "1.0", "alpha"))
    pyproject.write_text(PROJECT.replace('"alpha"', '"aaa"') + TOOL.format("tool>=61"))
    machine.locked()
    assert machine.versions("cpu") == {"aaa": "1.0", "alpha": "3.0", "tool": "81"}
    pyproject.write_text(PROJECT + TOOL.format("tool>=83"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 1 and ran.error.startswith(
        "error: pyproject.toml:8:13: cpu: the build of the spec's project"
    ), ran
    assert "requires tool>=83, beside which alpha is 2.0, not 3.0" in ran.error


def test_the_lock_is_stale_when_they_change_and_only_then(machine: Machine, pyproject: Path) -> None:
    machine.locked()
    pyproject.write_text(PROJECT.replace('"1.0"', '"1.1"') + "[tool.ruff]\nline-length = 100\n")
    assert machine.envspec("check").status == 0
    pyproject.write_text(PROJECT.replace('"alpha"', '"alpha<2"'))
    ran = machine.envspec("check")
    assert ran.status == 1 and "alpha became alpha<2" in ran.out, ran.out
    pyproject.unlink()
    ran = machine.envspec("check")
    assert ran.status == 2 and "specs/../pyproject.toml" not in ran.err and "pyproject.toml doesn't exist" in ran.err


def test_what_cannot_be_is_told_at_its_place_in_the_pyproject(machine: Machine, pyproject: Path) -> None:
    pyproject.write_text(PROJECT.replace('"alpha"', '"alpha", "torch==2.9.* @ x"'))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 2 and ran.error.startswith("error: pyproject.toml:4:26: "), ran.err


@pytest.mark.parametrize("what", ["file", "folder", "dangling", "pipe"])
def test_links_and_pipes_are_refused(machine: Machine, pyproject: Path, tmp_path: Path, what: str) -> None:
    """Nothing that a repository contains leads out of it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "pyproject.toml").write_text(PROJECT)
    pyproject.unlink()
    if what == "folder":
        (machine.folder / "member").symlink_to(outside)
        machine.spec(SPEC.format('"../member"'))
    elif what == "pipe":
        os.mkfifo(pyproject)
    else:
        pyproject.symlink_to(outside / ("pyproject.toml" if what == "file" else "nothing"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 2 and ("symbolic link" in ran.error or "named pipe" in ran.error), ran.err
    assert not machine.locks.exists()
