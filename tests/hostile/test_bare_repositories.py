"""Tracked files in the shape of a bare repository. git would take them for one, with a configuration that names
programs and with history of its own; envspec reads the work tree's repository alone."""

from pathlib import Path

import pytest
from support.machine import Machine
from support.victim import Hostile, git, hostile

from envspec.review.git.program import run_git

NO_COMMIT = "1" * 40


@pytest.fixture
def repository(tmp_path: Path) -> Hostile:
    """A repository with a fresh lock, committed."""
    made = hostile(tmp_path)
    git(made.folder, "init", "-q", "-b", "main")
    commit(made.folder)
    return made


def commit(folder: Path) -> None:
    git(folder, "add", "-Af", ".")
    git(folder, "commit", "-qm", "x")


def plant(folder: Path, mark: Path, head: str) -> None:
    """Put a bare repository's four files into a folder: whoever asks it for a missing object runs its sshCommand."""
    for name, text in {
        "HEAD": f"{head}\n",
        "config": (
            f'[core]\nrepositoryformatversion = 1\nsshCommand = "touch {mark}; false"\nfsmonitor = "touch {mark}"\n'
            '[extensions]\npartialClone = origin\n[remote "origin"]\nurl = ssh://localhost/x\npromisor = true\n'
        ),
        "objects/k": "",
        "refs/k": "",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("head", ["ref: refs/heads/main", NO_COMMIT], ids=["branch", "commit"])
@pytest.mark.parametrize("place", ["locks/demo", "locks"])
def test_its_programs_dont_run(repository: Hostile, tmp_path: Path, place: str, head: str) -> None:
    mark = tmp_path / "mark"
    plant(repository.folder / place, mark, head)
    commit(repository.folder)
    # not from the folder that is asked about: git would refuse it there
    assert run_git(["rev-parse", "--show-toplevel"], repository.folder / place).stdout.decode().strip() == str(
        repository.folder
    )
    machine = repository.machine
    for command in (
        ["diff", "specs/demo.toml", "--from", "HEAD~1", "--format", "markdown"],
        ["diff", "specs/demo.toml", "--from", NO_COMMIT],
        ["verify", "specs/demo.toml", "--from", NO_COMMIT],
        ["report", "specs/demo.toml", "-o", "report.html"],
        ["check"],
    ):
        machine.envspec(*command)
        assert not mark.exists(), command
    assert machine.envspec("diff", "specs/demo.toml", "--from", "HEAD~1").status == 0


def test_its_history_hides_no_forged_lock(repository: Hostile) -> None:
    folder = repository.folder
    forged = repository.lock.read_text(encoding="utf-8").replace('"1.0"', '"6.6.6"').replace("alpha-1.0", "alpha-6.6.6")
    repository.lock.write_text(forged, encoding="utf-8")
    other = folder.parent / "other"
    (other / "locks").mkdir(parents=True)
    (other / "locks" / "envspec.lock").write_text(forged, encoding="utf-8")
    (other / "envspec.lock").write_text(forged, encoding="utf-8")
    git(other, "init", "-q", "-b", "main")
    commit(other)
    for name in ("HEAD", "objects", "refs"):
        (other / ".git" / name).rename(repository.lock.parent / name)
    (repository.lock.parent / "config").write_text("[core]\nbare = false\nworktree = .\n", encoding="utf-8")
    ran = repository.machine.envspec("diff", "specs/demo.toml", "--from", "HEAD")
    assert "6.6.6" in ran.out, ran.out + ran.err


def test_a_partial_clone_is_asked_for_what_it_has(repository: Hostile, tmp_path: Path) -> None:
    """The user's own clone may name programs, too: git fetches nothing, so none starts."""
    mark = tmp_path / "mark"
    git(repository.folder, "config", "core.sshCommand", f"touch {mark}; false")
    git(repository.folder, "config", "remote.origin.url", "ssh://localhost/x")
    git(repository.folder, "config", "remote.origin.promisor", "true")
    git(repository.folder, "config", "core.repositoryFormatVersion", "1")
    git(repository.folder, "config", "extensions.partialClone", "origin")
    Machine(repository.machine.base, None).envspec("diff", "specs/demo.toml", "--from", NO_COMMIT, status=2)
    assert run_git(["cat-file", "-e", NO_COMMIT], repository.folder).returncode
    assert not mark.exists()
