"""Scratch folders: gone with their block whatever happens, swept when their process died."""

import errno
import hashlib
import os
import socket
from pathlib import Path

import pytest

from envspec.base.errors import StorageError
from envspec.base.scratch import scratch_folder
from envspec.packages.conflict import Unsatisfiable


def host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def test_scratch_goes_with_its_block(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "scratch") as folder:
        (folder / "below").mkdir()
        assert folder.name.startswith(f"{os.getpid()}-{host()}-")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "scratch").iterdir()) == []


def test_scratch_goes_whatever_happens(tmp_path: Path) -> None:
    base = tmp_path / "scratch"
    with pytest.raises(Unsatisfiable), scratch_folder(base):
        raise Unsatisfiable("no")
    with (
        pytest.raises(StorageError, match="can't be written: No space left") as error,
        scratch_folder(tmp_path / "scratch"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "ENVSPEC_CACHE_DIR" in str(error.value.hint)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_only_the_dead_are_swept(tmp_path: Path) -> None:
    kept = [f"{os.getpid()}-{host()}-mine", "999999999-0badc0de-elsewhere", "999999999-dead", "notes"]
    for name in [*kept, f"999999999-{host()}-dead"]:
        (tmp_path / "scratch" / name).mkdir(parents=True)
    with scratch_folder(tmp_path / "scratch"):
        pass
    assert sorted(path.name for path in (tmp_path / "scratch").iterdir()) == sorted(kept)
