"""A folder of locks on disk, and what lies in it."""

from pathlib import Path

import pytest
from lock_writer import new_lock, old_lock

from envspec.lock.model import Lock
from envspec.lock.store import LockFolder, rendered_files
from envspec.lock.write import dumps

NOTES = {"README.md": "mine\n", "cpu/notes.txt": "mine too\n", "old/requirements.txt": "torch\n"}
"""Files of the user's own. `old` is no target, and its requirements.txt is not envspec's."""


def files_of(lock: Lock) -> dict[str, str]:
    return {"envspec.lock": dumps(lock), **rendered_files(lock)}


def on_disk(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".envspec")]


def stale(store: LockFolder) -> set[str]:
    """The rendered files that aren't those of the lock, as `envspec check` lists them."""
    lock = store.load()
    expected, found = rendered_files(lock), store.read_rendered_files(lock)
    return {path for path in {*expected, *found} if expected.get(path) != found.get(path)}


@pytest.fixture
def store(tmp_path: Path) -> LockFolder:
    """A folder with the old lock and files of the user's."""
    folder = LockFolder(tmp_path / "locks", "sample")
    folder.write(old_lock())
    for path, text in NOTES.items():
        target = folder.folder / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


OLD = {**files_of(old_lock()), **NOTES}


NEW = {**files_of(new_lock()), **NOTES}
