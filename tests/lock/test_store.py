"""The lock on disk: the old one or the new one, whatever happens, and nothing of the user's is touched."""

import errno
import os
import signal
from pathlib import Path

import pytest
from lock_writer import new_lock, old_lock
from msgspec import structs
from stored_locks import NEW, OLD, files_of, leftovers, on_disk, stale, store as store

from envspec.base.errors import InputError, InternalError, LockError, StorageError
from envspec.lock.store import LockFolder, rendered_files


def test_write_and_read(tmp_path: Path) -> None:
    store = LockFolder(tmp_path / "locks", "sample")
    assert store.read() is None
    with pytest.raises(LockError, match="there is no lock here"):
        store.load()
    assert store.write(old_lock())
    assert store.read() == store.load() == old_lock()
    assert store.read_rendered_files(old_lock()) == rendered_files(old_lock())
    assert on_disk(store.folder) == files_of(old_lock())
    assert not store.write(old_lock()), "nothing had to change"


def test_a_new_lock_replaces_only_what_is_ours(store: LockFolder) -> None:
    untouched = store.folder / "cu128.hopper" / "requirements.txt"
    before = untouched.stat()
    folder = store.folder.stat()
    assert store.write(new_lock())
    assert on_disk(store.folder) == NEW
    assert untouched.stat().st_ino == before.st_ino
    assert untouched.stat().st_mtime_ns == before.st_mtime_ns
    assert store.folder.stat().st_ino == folder.st_ino


def test_the_folder_of_a_target_that_is_gone_goes(tmp_path: Path) -> None:
    store = LockFolder(tmp_path, "sample")
    store.write(old_lock())
    store.write(new_lock())
    assert not (store.folder / "cpu").exists()


def test_rendered_files_that_someone_changed_are_put_right(store: LockFolder) -> None:
    edited, gone = store.folder / "cpu/requirements.txt", store.folder / "cu126-volta/requirements.txt"
    edited.write_bytes(b"torch\n\xff")
    gone.unlink()
    extra = store.folder / "stale/requirements.txt"
    extra.parent.mkdir()
    extra.write_text(rendered_files(old_lock())["cpu/requirements.txt"], encoding="utf-8")
    found = store.read_rendered_files(old_lock())
    assert found["cpu/requirements.txt"] == "torch\n\ufffd"
    expected = {*rendered_files(old_lock()), "stale/requirements.txt"} - {"cu126-volta/requirements.txt"}
    assert sorted(found) == sorted(expected)
    assert store.write(old_lock())
    assert on_disk(store.folder) == OLD
    assert not extra.parent.exists()


def test_a_damaged_lock_is_refused_and_can_be_replaced(store: LockFolder) -> None:
    store.path.write_text("torch", encoding="utf-8")
    for read in (store.read, store.load):
        with pytest.raises(LockError, match="doesn't begin with its `lock-version`"):
            read()
    store.write(old_lock())
    assert store.read() == old_lock()


@pytest.mark.parametrize("name", ["..", "../x", "/x", "a/b", "", "a\0b", "A", ".hidden", "a\n", "a b"])
def test_a_name_stays_in_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="can't name a lock"):
        LockFolder(tmp_path, name)


def test_what_could_not_be_read_back_is_not_written(store: LockFolder) -> None:
    first, *others = old_lock().targets
    escaping = structs.replace(old_lock(), targets=(structs.replace(first, name="../x"), *others))
    for lock in (escaping, structs.replace(old_lock(), name="other")):
        with pytest.raises(InternalError):
            store.write(lock)
    assert on_disk(store.folder) == OLD


def test_symlinked_folders(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "locks").symlink_to("real")
    store = LockFolder(tmp_path / "locks", "sample")
    store.write(old_lock())
    assert on_disk(tmp_path / "real" / "sample") == files_of(old_lock())


def test_a_file_in_the_way(store: LockFolder) -> None:
    in_the_way = store.folder / "cpu-new"
    in_the_way.write_text("mine", encoding="utf-8")
    with pytest.raises(StorageError, match="cpu-new") as caught:
        store.write(new_lock())
    assert caught.value.exit_code == 3
    assert on_disk(store.folder) == {**OLD, "cpu-new": "mine"}
    (store.folder / "envspec.lock").unlink()
    in_the_way.unlink()
    (store.folder / "cpu-new" / "requirements.txt").mkdir(parents=True)
    with pytest.raises(StorageError, match=r"requirements\.txt"):
        store.write(new_lock())
    assert store.read() is None
    assert not [path for path in store.folder.iterdir() if path.name.startswith(".envspec")]


def test_an_interruption_waits_for_the_renames(store: LockFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def replace(source: str, target: str, **folders: int) -> None:
        signal.raise_signal(signal.SIGINT)
        real(source, target, **folders)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(KeyboardInterrupt, match="the begun change is written"):
        store.write(new_lock())
    assert on_disk(store.folder) == NEW


def test_a_failure_between_the_renames_is_told_as_one(store: LockFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.replace

    def replace(source: str, target: str, **folders: int) -> None:
        if target == "requirements.txt":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(source, target, **folders)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(StorageError, match=r"requirements\.txt: can't be written: Input/output error"):
        store.write(new_lock())
    assert store.load() == new_lock()
    assert {"cpu/requirements.txt", "cpu-new/requirements.txt", "cu126-volta/requirements.txt"} <= stale(store)
    assert not leftovers(store.folder)
    monkeypatch.undo()
    store.write(new_lock())
    assert on_disk(store.folder) == NEW
