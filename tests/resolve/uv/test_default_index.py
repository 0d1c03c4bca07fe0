"""Where uv's own PyPI is: asked of uv once, and remembered only when it answered."""

import errno
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from envspec.resolve.uv.program import Uv, find_uv, uvs_default_index


def test_uv_tells_where_pypi_is_and_is_asked_once(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path / "missing")}
    told = uvs_default_index(find_uv(env), tmp_path)
    assert told is not None and urlsplit(told).scheme == "https" and told.endswith("/simple")
    (memo,) = tmp_path.glob("uv-default-index-*")
    memo.write_text("https://remembered.example/simple")
    assert uvs_default_index(find_uv(env), tmp_path) == "https://remembered.example/simple"
    assert list(tmp_path.glob("uv-default-index-*")) == [memo]


def test_what_a_failing_uv_tells_is_not_remembered(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path / "missing")}
    assert uvs_default_index(find_uv({**env, "UV_HTTP_TIMEOUT": "abc"}), tmp_path) is None
    assert list(tmp_path.glob("uv-default-index-*")) == []
    assert uvs_default_index(find_uv(env), tmp_path) is not None


def test_a_memo_that_breaks_off_is_never_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", broken)
    env = {"HOME": str(tmp_path), "PATH": str(tmp_path / "missing")}
    told = uvs_default_index(find_uv(env), tmp_path)
    assert told is not None and told.endswith("/simple")
    assert list(tmp_path.glob("uv-default-index-*")) == []


def test_a_uv_that_is_gone(tmp_path: Path) -> None:
    assert uvs_default_index(Uv(str(tmp_path / "missing" / "uv"), {}), tmp_path) is None
