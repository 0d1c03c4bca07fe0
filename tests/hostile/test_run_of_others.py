"""What others may write to would have `envspec run` start their programs: memos, environments, the folder of these."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import pytest
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.install.environments import memo

ROOT_ONLY = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
APP = wheel("app", "1.0")
RUN = ("run", "--", "tool")


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """An environment of somebody else's making."""
    program = tmp_path / "evil" / "bin" / "tool"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho owned\n")
    program.chmod(0o755)
    for name in ("activate", "python"):
        (program.parent / name).write_text("")
    return tmp_path / "evil"


def after_a_run(machine: Machine, index: Index) -> Machine:
    """A machine on which `envspec run` has run."""
    index.add(APP)
    write_lock(machine, [pip_pin(APP)])
    machine.envspec("run", "--", "true", spawn=True, status=0)
    return machine


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Index() as index:
        machine = Machine(tmp_path_factory.mktemp("shared") / "machine", index.url)
        yield after_a_run(machine, index)
        machine.close()


@pytest.fixture
def ready(shared: Machine) -> Iterator[Machine]:
    """Such a machine, which several tests have one after the other: what one exchanged is put back."""
    (prefix,) = shared.environments.iterdir()
    (path,) = (shared.cache / memo.FOLDER).iterdir()
    text, before = path.read_text(), {one: one.stat() for one in (path, prefix, prefix.parent)}
    yield shared
    path.write_text(text)
    for one, found in before.items():
        os.chown(one, found.st_uid, found.st_gid)
        one.chmod(S_IMODE(found.st_mode))


def planted(machine: Machine, evil: Path) -> Path:
    """The memo of that run, changed to name another environment."""
    (path,) = (machine.cache / memo.FOLDER).iterdir()
    document = json.loads(path.read_text())
    document["ready"]["prefix"] = str(evil)
    document["files"] = {}
    path.write_text(json.dumps(document))
    return path


def not_owned(machine: Machine, status: int = 2) -> str:
    ran = machine.envspec(*RUN, spawn=True)
    assert (ran.status, "owned" in ran.out) == (status, False), ran
    return ran.error


@pytest.mark.slow
def test_a_memo_that_anybody_may_write_to(ready: Machine, evil: Path) -> None:
    planted(ready, evil).chmod(0o666)
    assert "'tool' is neither in the environment" in not_owned(ready)


@ROOT_ONLY
def test_a_memo_of_another_user(ready: Machine, evil: Path) -> None:
    os.chown(planted(ready, evil), 4242, 4242)
    assert "'tool' is neither in the environment" in not_owned(ready)


@ROOT_ONLY
def test_a_memo_that_names_the_environment_of_another_user(ready: Machine, evil: Path) -> None:
    planted(ready, evil)
    os.chown(evil, 4242, 4242)
    assert "'tool' is neither in the environment" in not_owned(ready)


@pytest.mark.parametrize("which", ["folder", "environment"])
def test_a_folder_that_anybody_may_write_to(ready: Machine, which: str) -> None:
    (prefix,) = ready.environments.iterdir()
    path = prefix if which == "environment" else prefix.parent
    path.chmod(0o777)
    assert not_owned(ready) == f"error: {path}: what is run there can't be trusted: every user may write to it"


@ROOT_ONLY
def test_an_environment_of_another_user(ready: Machine) -> None:
    (prefix,) = ready.environments.iterdir()
    os.chown(prefix, 4242, 4242)
    assert f"{prefix}: what is run there can't be trusted: another user owns it (uid 4242)" in not_owned(ready)


@pytest.mark.slow
def test_a_link_where_programs_hold_an_environment(machine: Machine, index: Index, tmp_path: Path) -> None:
    ready = after_a_run(machine, index)
    (prefix,) = ready.environments.iterdir()
    held = prefix / "etc" / "envspec" / "running"
    held.unlink(missing_ok=True)
    held.symlink_to(tmp_path / "made-through-the-link")
    assert ready.envspec("run", SPEC, "--", "true", spawn=True).status == 0
    assert ready.envspec("cache", "clean", "environments").status == 0
    assert not prefix.exists() and not (tmp_path / "made-through-the-link").exists()
