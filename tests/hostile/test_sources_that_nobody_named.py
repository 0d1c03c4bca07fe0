"""Packages from git that name other places, and revisions that could be taken for others: `lock` asks the spec."""

import shutil
from pathlib import Path

import pytest
from support.git_repository import git, repository
from support.index import Index
from support.machine import Machine, cpu
from support.packages import source_files

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")]

ALLOWED = "allow-source = ['app', 'dep']"


@pytest.fixture
def app(tmp_path: Path, index: Index) -> Path:
    """A repository with app at its top, which requires dep out of one of its folders."""
    folder = tmp_path / "app"
    repository(folder, source_files("dep", "1.0"), below="dep")
    line = f"dep @ git+{folder.as_uri()}@main#subdirectory=dep"
    repository(folder, source_files("app", "1.0", [line]))
    return folder


def locked(machine: Machine, *lines: str) -> dict[str, str]:
    (target,) = machine.locked(spec=cpu(*lines, extra=ALLOWED))
    assert machine.envspec("check", "specs/demo.toml").status == 0
    return {pin.name: pin.git.commit for pin in target.pins if pin.git}


@pytest.mark.slow
def test_a_neighbour_in_the_same_repository(machine: Machine, app: Path) -> None:
    head = git(app, "rev-parse", "HEAD")
    assert locked(machine, f"app @ git+{app.as_uri()}@main") == {"app": head, "dep": head}


@pytest.mark.slow
def test_another_repository(machine: Machine, tmp_path: Path, index: Index) -> None:
    other, folder = tmp_path / "other", tmp_path / "lured"
    repository(other, source_files("dep", "1.0"))
    line = f"dep @ git+{other.as_uri()}@main"
    repository(folder, source_files("app", "1.0", [line]))
    asked = f"app @ git+{folder.as_uri()}@main"
    ran = machine.envspec("lock", machine.spec(cpu(asked, extra=ALLOWED)))
    assert ran.status == 2 and "only the spec may name a repository" in ran.error, ran.err
    assert f'add to [pip] dependencies: "{line}"' in ran.hint
    assert locked(machine, asked, line).keys() == {"app", "dep"}


@pytest.mark.slow
def test_a_short_commit_is_written_in_full_and_binds(machine: Machine, app: Path) -> None:
    head = git(app, "rev-parse", "HEAD")
    first = git(app, "rev-parse", "HEAD~1")
    line = f"dep @ git+{app.as_uri()}@{first[:9].upper()}#subdirectory=dep"
    assert locked(machine, line) == {"dep": first}
    (lock,) = machine.base.rglob("envspec.lock")
    lock.write_text(lock.read_text().replace(f'commit = "{first}"', f'commit = "{head}"'))
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 1 and "[requirement-unmet]" in ran.err + ran.out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heads", "tags"])
def test_a_branch_whose_name_reads_like_a_commit(machine: Machine, app: Path, kind: str) -> None:
    git(app, "update-ref", f"refs/{kind}/20250101", "HEAD")
    asked = f"dep @ git+{app.as_uri()}@{{}}#subdirectory=dep"
    ran = machine.envspec("lock", machine.spec(cpu(asked.format("20250101"), extra=ALLOWED)))
    assert ran.status == 2 and "the spec names another commit" in ran.error and "refs/tags/<tag>" in ran.hint, ran.err
    assert locked(machine, asked.format(f"refs/{kind}/20250101")).keys() == {"dep"}


@pytest.mark.parametrize("odd", ["?x=1", "/../x", "\\\\x", "@a@b", ":٤٤٣/x"])
def test_an_address_that_tools_read_in_two_ways(machine: Machine, odd: str) -> None:
    ran = machine.envspec("lock", machine.spec(cpu(f"app @ git+https://code.example.org/x{odd}", extra=ALLOWED)))
    assert ran.status == 2 and "specs/demo.toml:" in ran.error and "in more than one way" in ran.error, ran.err
