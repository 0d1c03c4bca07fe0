"""The lock folder when its filesystem fails, at each single change; and two writers at once."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lock_samples import sample_lock
from lock_writer import new_lock, old_lock
from msgspec import structs
from stored_locks import NEW, OLD, files_of, leftovers, on_disk, stale, store as store
from support.matrix import first_by_day

from envspec.base.errors import StorageError
from envspec.lock.store import LockFolder, rendered_files

WRITER = Path(__file__).with_name("lock_writer.py")


ROOT = Path(__file__).parents[2]


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(WRITER.parent)))}
    return subprocess.Popen(
        [sys.executable, "-B", str(WRITER), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


# Faults at every single change of the filesystem, in real processes.


def strike(process: subprocess.Popen[str], kind: str, number: int, folder: Path) -> str:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{kind} {number} {folder}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


@pytest.fixture
def faults() -> Iterator[Callable[[str, int, Path], str]]:
    with start("fault") as process:
        yield lambda kind, number, folder: strike(process, kind, number, folder)
        process.communicate()


def every_fault(
    store: LockFolder, tmp_path: Path, kind: str, faults: Callable[[str, int, Path], str]
) -> Iterator[tuple[LockFolder, str]]:
    """A copy of the folder for each point at which a write can be struck, struck there, and how that ended."""
    for number in range(1, 200):
        copy = LockFolder(tmp_path / f"{kind}{number}", "sample")
        shutil.copytree(store.folder, copy.folder)
        outcome = faults(kind, number, copy.folder)
        if outcome == "done":
            assert on_disk(copy.folder) == NEW
            # The folders of new files, staging, the renames, the tidying: fewer points prove nothing.
            assert number > 20
            return
        yield copy, outcome
        shutil.rmtree(copy.folder)
    pytest.fail("the write never came to its end")


@pytest.mark.slow
def test_kill_at_every_point(store: LockFolder, tmp_path: Path, faults: Callable[[str, int, Path], str]) -> None:
    states, mixed = [], 0
    for struck, outcome in every_fault(store, tmp_path, "kill", faults):
        assert outcome == "killed"
        lock = struck.load()
        assert lock in (old_lock(), new_lock())
        states.append(lock == new_lock())
        found = on_disk(struck.folder)
        for path in {*OLD, *NEW}:
            assert found.get(path) in (OLD.get(path), NEW.get(path)), "each file is the old one or the new one"
        assert states[-1] or not stale(struck), "the lock is the first to change"
        mixed += bool(stale(struck))
        with struck.exclusive():
            assert not leftovers(struck.folder), "the next writer sweeps"
        struck.write(lock)
        assert on_disk(struck.folder) == (NEW if states[-1] else OLD), "and renders forward"
        struck.write(new_lock())
        assert on_disk(struck.folder) == NEW
    assert states == sorted(states), "old up to one point, new from there"
    assert set(states) == {False, True}
    assert mixed, "or this proves nothing"


@pytest.mark.slow
def test_no_space_at_every_point(store: LockFolder, tmp_path: Path, faults: Callable[[str, int, Path], str]) -> None:
    failed = 0
    for struck, outcome in every_fault(store, tmp_path, "fail", faults):
        if outcome == "failed" and struck.load() == old_lock():
            failed += 1
            assert on_disk(struck.folder) == OLD, "the old files are whole, and nothing else is left"
            continue
        # Some steps can be left to the next run (the end of the tidying), and the renames can stop half-way.
        assert outcome in ("failed", "survived")
        assert struck.load() == new_lock()
        struck.write(new_lock())
        with struck.exclusive():
            assert on_disk(struck.folder) == NEW
    assert failed > 10


def test_a_limit_on_the_size_of_files(store: LockFolder) -> None:
    process = start("limit", str(store.folder), "2000")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "File too large" in json.loads(errors)["message"]
    assert on_disk(store.folder) == OLD


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of its own with 64 KiB, which `mount -o remount` can make read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small filesystem takes root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    store = LockFolder(small_disk, "sample")
    store.write(old_lock())
    (small_disk / "filler").write_bytes(bytes(1))
    with (small_disk / "filler").open("ab", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
    with pytest.raises(StorageError, match="No space left") as caught:
        store.write(new_lock())
    assert caught.value.hint
    assert "nothing was changed" in caught.value.hint
    assert on_disk(store.folder) == files_of(old_lock())
    (small_disk / "filler").unlink()
    store.write(new_lock())
    assert on_disk(store.folder) == files_of(new_lock())


def test_a_read_only_filesystem(small_disk: Path) -> None:
    store = LockFolder(small_disk, "sample")
    store.write(old_lock())
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert store.read() == old_lock()
    assert store.read_rendered_files(old_lock()) == rendered_files(old_lock())
    assert not store.write(old_lock()), "nothing to do needs no writing"
    for locks, lock in ((store, new_lock()), (LockFolder(small_disk, "other"), None)):
        with pytest.raises(StorageError, match="Read-only") as caught:
            locks.write(lock or structs.replace(sample_lock(), name="other"))
        assert caught.value.hint
        assert "--locks-dir" in caught.value.hint
    assert on_disk(store.folder) == files_of(old_lock())


def test_a_folder_without_the_right_to_write(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    store = LockFolder(tmp_path, "sample")
    store.write(old_lock())
    store.folder.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            store.write(new_lock())
        assert store.read() == old_lock()
    finally:
        store.folder.chmod(0o755)


# Two at once.


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.parametrize("how", first_by_day(1, ["folder", "file"]))
@pytest.mark.parametrize("there", [True, False])
def test_two_writers(tmp_path: Path, how: str, there: bool) -> None:
    store = LockFolder(tmp_path, "sample")
    if there:
        store.write(old_lock())
    with start("hold", str(store.folder), how) as first, start("hold", str(store.folder), how) as second:
        # Either may be the first to get in.
        starts = [line(first)]
        assert starts == ["in"] or line(second) == "in"
        leader, other = (first, second) if starts == ["in"] else (second, first)
        if leader is first:
            assert line(second) == "waiting"
        assert store.read() == (old_lock() if there else None), "reading needs no lock"
        go(leader)
        assert line(leader) == "out"
        assert line(other) == "in"
        assert store.read() == new_lock()
        go(other)
        assert line(other) == "out"
        for process in (first, second):
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (0, "")
    assert on_disk(store.folder) == files_of(new_lock())


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("how", ["folder", "file"])
def test_a_killed_writer_holds_nobody_up(store: LockFolder, how: str) -> None:
    with start("hold", str(store.folder), how) as first:
        assert line(first) == "in"
        first.kill()
        first.communicate()
    with start("hold", str(store.folder), how) as second:
        assert line(second) == "in"
        go(second)
        assert line(second) == "out"
        second.communicate()
    assert on_disk(store.folder) == NEW


def test_an_empty_folder_does_not_stay(tmp_path: Path) -> None:
    store = LockFolder(tmp_path / "locks", "sample")
    with store.exclusive():
        assert store.folder.is_dir()
        with store.exclusive():
            pass
    assert not store.folder.exists()
