"""What an earlier envspec left when it was killed, made up by whoever wrote a repository: nobody reads it any more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine
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
        ran = user.envspec(*command)
        assert ran.status == 0, ran.err
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
    assert load(user.lock_path()) == visible
