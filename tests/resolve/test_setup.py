"""A resolver put together for this machine: uv's own default index, scratch folders."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from envspec.errors import StorageError, Unsatisfiable
from envspec.scratch import scratch_folder
from envspec.uv.default_index import uvs_default_index
from envspec.uv.program import Uv, find_uv


def test_uv_tells_where_pypi_is_and_is_asked_once(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    told = uvs_default_index(find_uv(env), tmp_path)
    assert told is not None and urlsplit(told).scheme == "https" and told.endswith("/simple")
    (memo,) = tmp_path.glob("uv-default-index-*")
    memo.write_text("https://remembered.example/simple")
    assert uvs_default_index(find_uv(env), tmp_path) == "https://remembered.example/simple"
    assert list(tmp_path.glob("uv-default-index-*")) == [memo]


def test_what_a_failing_uv_tells_is_not_remembered(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    assert uvs_default_index(find_uv({**env, "UV_HTTP_TIMEOUT": "abc"}), tmp_path) is None
    assert list(tmp_path.glob("uv-default-index-*")) == []
    assert uvs_default_index(find_uv(env), tmp_path) is not None


def test_a_memo_that_breaks_off_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, text: str, encoding: str) -> int:
        with path.open("w", encoding=encoding) as file:
            file.write(text[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", broken)
    env = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    told = uvs_default_index(find_uv(env), tmp_path)
    assert told is not None and told.endswith("/simple")
    assert list(tmp_path.glob("uv-default-index-*")) == []


def test_a_uv_that_is_gone(tmp_path: Path) -> None:
    assert uvs_default_index(Uv("/nonexistent/uv", {}), tmp_path) is None


def host() -> str:
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def test_scratch_goes_with_its_block(tmp_path: Path) -> None:
    with scratch_folder(tmp_path) as folder:
        (folder / "below").mkdir()
        assert folder.name.startswith(f"{os.getpid()}-{host()}-")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "scratch").iterdir()) == []


def test_scratch_goes_whatever_happens(tmp_path: Path) -> None:
    with pytest.raises(Unsatisfiable), scratch_folder(tmp_path):
        raise Unsatisfiable("no")
    with pytest.raises(StorageError, match="can't be written: No space left") as error, scratch_folder(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "ENVSPEC_CACHE_DIR" in str(error.value.hint)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_only_the_dead_are_swept(tmp_path: Path) -> None:
    kept = [f"{os.getpid()}-{host()}-mine", "999999999-0badc0de-elsewhere", "999999999-dead", "notes"]
    for name in [*kept, f"999999999-{host()}-dead"]:
        (tmp_path / "scratch" / name).mkdir(parents=True)
    with scratch_folder(tmp_path):
        pass
    assert sorted(path.name for path in (tmp_path / "scratch").iterdir()) == sorted(kept)
