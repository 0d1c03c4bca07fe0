"""What an earlier envspec left when it was killed, made up by whoever wrote a repository: nobody reads it any more."""

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import GLIBC, PYTHON, SUBDIR
from support.machine import Machine, cpu
from support.packages import wheel
from support.victim import ALPHA, Hostile, files_below, git, hostile

from envspec.lock.read import load
from envspec.lock.write import dumps

pytestmark = pytest.mark.e2e

HOOK = "#!/bin/sh\nid>pwned\n"


@pytest.fixture
def repository(tmp_path: Path, index: Index) -> Hostile:
    index.add(ALPHA, wheel("alpha", "2.0"))
    return hostile(tmp_path, index.url)


def cloned(repository: Hostile) -> Machine:
    """The user's machine, with a clone of the repository as its project."""
    git(repository.folder, "init", "-q")
    git(repository.folder, "add", "-Af", ".")
    git(repository.folder, "commit", "-qm", "x")
    user = Machine(repository.machine.base / "user", repository.machine.default)
    (user.folder / "specs").rmdir()
    git(repository.folder, "clone", "-q", ".", str(user.folder))
    return user


@pytest.mark.by_day(1)
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "stale"])
@pytest.mark.parametrize("name", [".envspec-commit", ".envspec-staging"])
def test_a_journal_that_installs_a_hook(repository: Hostile, name: str, fresh: bool) -> None:
    locks = repository.folder / "locks" / "demo"
    (locks / "x").symlink_to("../../.git/hooks")
    planted = locks / name / "new" / "x" / "post-commit"
    planted.parent.mkdir(parents=True)
    planted.write_text(HOOK)
    planted.chmod(0o755)
    (locks / name / "journal.json").write_text('{"files":["x/post-commit"],"removed":[]}')
    user = cloned(repository)
    if not fresh:
        spec = user.folder / "specs" / "demo.toml"
        spec.write_text(spec.read_text().replace("alpha==1.0", "alpha"))
    before = files_below(user.folder / ".git")
    for command in (["lock", "specs/demo.toml"], ["lock", "specs/demo.toml", "--upgrade"], ["check"]):
        user.envspec(*command, status=0)
    assert files_below(user.folder / ".git") == before
    assert (user.folder / "locks" / "demo" / name / "journal.json").is_file(), "not envspec's, so it stays"


def test_a_hidden_lock(repository: Hostile) -> None:
    visible = load(repository.lock)
    (target,) = visible.targets
    pins = tuple(replace(pin, version="6.6.6") for pin in target.pins)
    new = repository.lock.parent / ".envspec-commit" / "new"
    new.mkdir(parents=True)
    (new / "envspec.lock").write_text(dumps(replace(visible, targets=(replace(target, pins=pins),))))
    (new.parent / "journal.json").write_text(
        json.dumps({"files": ["envspec.lock"], "removed": ["cpu/requirements.txt"]})
    )
    user = cloned(repository)
    assert "fresh" in user.envspec("check").out
    assert "6.6.6" not in user.envspec("tree", "specs/demo.toml").out
    assert "6.6.6" not in user.envspec("diff", "specs/demo.toml", "--from", "HEAD").out
    assert "6.6.6" not in user.envspec("export", "specs/demo.toml", "--format", "requirements").out
    dry = user.envspec("install", "specs/demo.toml", "--prefix", "env", "--dry-run")
    assert "6.6.6" not in dry.out + dry.err
    assert user.envspec("lock", "specs/demo.toml").status == 0
    assert replace(load(user.lock_path()), pythons=()) == replace(visible, pythons=())


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize(("name", "visible"), [(".envspec-commit", "1.0"), (".envspec-staging", "2.0")])
def test_a_hidden_lock_that_is_as_sound_as_the_visible_one(
    machine: Machine, index: Index, tmp_path: Path, name: str, visible: str
) -> None:
    """Each of the two locks was made by envspec, fits the spec, and could be installed. What is hidden isn't: neither
    installed nor reviewed."""
    hidden = {"1.0": "2.0", "2.0": "1.0"}[visible]
    targets = f"[targets.cpu]\nplatform = '{SUBDIR}'\nglibc = '{GLIBC}'\n"
    machine.spec(cpu("alpha", targets=targets, python=PYTHON))
    made = {}
    for version in ("1.0", "2.0"):
        index.add(wheel("alpha", version))
        author = Machine(tmp_path / version, index.url)
        author.locked(spec=(machine.folder / "specs" / "demo.toml").read_text())
        made[version] = author.locks / "demo"
    shutil.copytree(made[visible], machine.locks / "demo")
    git(machine.folder, "init", "-q")
    git(machine.folder, "add", "-Af", ".")
    git(machine.folder, "commit", "-qm", "what was reviewed")
    planted = machine.locks / "demo" / name
    shutil.copytree(made[hidden], planted / "new")
    (planted / "journal.json").write_text('{"files":["envspec.lock","cpu/requirements.txt"],"removed":[]}')
    git(machine.folder, "add", "-Af", ".")
    git(machine.folder, "commit", "-qm", "x")
    user = Machine(tmp_path / "user", index.url)
    (user.folder / "specs").rmdir()
    git(machine.folder, "clone", "-q", ".", str(user.folder))

    user.envspec("install", "specs/demo.toml", "--prefix", "env", status=0)
    assert [path.name for path in (user.folder / "env").rglob("alpha-*")] == [f"alpha-{visible}.dist-info"]
    for command in (["--from", "HEAD"], ["--from", "HEAD~1"]):
        ran = user.envspec("diff", "specs/demo.toml", *command)
        assert ran.status == 0 and "alpha" not in ran.out, ran.out + ran.err
    # a change of the visible lock to what is hidden is a change
    shutil.copytree(made[hidden], user.locks / "demo", dirs_exist_ok=True)
    ran = user.envspec("diff", "specs/demo.toml", "--from", "HEAD")
    assert "alpha" in ran.out and visible in ran.out and hidden in ran.out, ran.out + ran.err
