"""A cache that others may write to, links in it that lead out, and folders that change under the hand that removes."""

import os
import threading
from pathlib import Path

import pytest
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.base.errors import InputError
from envspec.base.places import stranger
from envspec.configuration.settings import load_settings

ALPHA = wheel("alpha", "1.0")
ROOT_ONLY = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
COMMANDS = {
    "lock": ["lock", SPEC, "--upgrade"],
    "bundle": ["bundle", SPEC, "-o", "x.tar"],
    "audit": ["audit", SPEC],
    "clean": ["cache", "clean"],
    "prune": ["cache", "prune", "--older-than", "1h"],
}


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    index.add(ALPHA)
    write_lock(machine, [pip_pin(ALPHA)])
    machine.cache.mkdir(parents=True)
    machine.cache.chmod(0o755)
    return machine


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("inside", ["", "metadata-v2"])
def test_a_cache_that_anybody_may_write_to(locked: Machine, command: str, inside: str) -> None:
    """Its METADATA would be taken at its word."""
    folder = locked.cache / inside
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    ran = locked.envspec(*COMMANDS[command], status=2)
    assert ran.error == f"error: {folder}: the cache can't be trusted: every user may write to it"
    assert f"chmod -R go-w {locked.cache}" in ran.hint


@ROOT_ONLY
@pytest.mark.parametrize("inside", ["", "metadata-v2"])
def test_a_cache_of_another_user(locked: Machine, inside: str) -> None:
    folder = locked.cache / inside
    folder.mkdir(exist_ok=True)
    os.chown(folder, 4242, 4242)
    ran = locked.envspec("lock", SPEC, "--upgrade", status=2)
    assert ran.error == f"error: {folder}: the cache can't be trusted: another user owns it (uid 4242)"


@ROOT_ONLY
def test_a_cache_of_a_group(locked: Machine) -> None:
    os.chown(locked.cache, 0, 4242)
    locked.cache.chmod(0o775)
    ran = locked.envspec("lock", SPEC, "--upgrade")
    assert ran.status == 2 and "its group may write to it (gid 4242)" in ran.error
    # of a folder that nobody else gets into, what is in it is of no concern
    locked.cache.chmod(0o700)
    (locked.cache / "metadata-v2").mkdir(mode=0o777)
    (locked.cache / "metadata-v2").chmod(0o777)
    assert locked.envspec("lock", SPEC, "--upgrade").status == 0


def test_a_new_cache_is_its_users_alone(machine: Machine, index: Index) -> None:
    index.add(ALPHA)
    machine.spec(cpu("alpha"))
    before = os.umask(0)
    try:
        machine.locked()
    finally:
        os.umask(before)
    assert machine.cache.stat().st_mode & 0o777 == 0o700


def test_who_may_write(tmp_path: Path) -> None:
    """root is trusted, as with every program on the machine."""
    path = tmp_path / "folder"
    path.mkdir(mode=0o755)
    found = path.stat()
    assert stranger(found, found.st_uid) is None
    assert stranger(found, None) is None
    if found.st_uid == 0:
        assert stranger(found, 12345) is None
    path.chmod(0o757)
    assert stranger(path.stat(), found.st_uid) == "every user may write to it"
    with pytest.raises(InputError):
        load_settings({"HOME": str(tmp_path), "ENVSPEC_CACHE_DIR": str(path)}).cache()


@pytest.mark.parametrize(
    "name", ["artifacts", "metadata-v2", "conda/packages", "smoke", "scratch", "uv-private", ".going-0123456789abcdef"]
)
@pytest.mark.parametrize("command", [["clean"], ["prune", "--older-than", "0h"]])
def test_a_link_in_place_of_a_folder_is_left_alone(
    locked: Machine, tmp_path: Path, name: str, command: list[str]
) -> None:
    victim = tmp_path / "victim"
    (victim / "ab").mkdir(parents=True)
    (victim / "ab" / "precious.txt").write_text("mine")
    link = locked.cache / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim)
    ran = locked.envspec("cache", *command, status=0)
    assert link.is_symlink() and name in ran.err
    assert (victim / "ab" / "precious.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "name",
    ["artifacts/x", "metadata-v2/ab", "metadata-v2/ab/x.json", "conda/packages/lib-1-0", "smoke/a/b", "uv-private/x"],
)
def test_a_link_below_goes_itself_and_not_what_it_leads_to(locked: Machine, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious.txt").write_text("mine")
    link = locked.cache / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(victim)
    locked.envspec("cache", "clean", status=0)
    assert not link.is_symlink()
    assert (victim / "precious.txt").read_text() == "mine"


def test_a_folder_that_is_exchanged_for_a_link_while_it_is_removed(locked: Machine, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    for number in range(20):
        (victim / f"{number}.json").write_text("mine")
    folder = locked.cache / "metadata-v2" / "ab"
    aside = locked.cache / "metadata-v2" / "aside"
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            try:
                folder.rename(aside)
                folder.symlink_to(victim)
                folder.unlink()
                aside.rename(folder)
            except OSError:
                pass

    folder.mkdir(parents=True)
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(20):
            for number in range(20):
                try:
                    (aside if aside.exists() else folder).mkdir(parents=True, exist_ok=True)
                    path = folder / f"{number}.json"
                    if not folder.is_symlink():
                        path.touch()
                except OSError:
                    continue
            # 2: it was the link just then, which is refused
            assert locked.envspec("cache", "clean").status in (0, 2, 3)
    finally:
        stop.set()
        thread.join()
    assert sorted(path.read_text() for path in victim.iterdir()) == ["mine"] * 20
