"""Records in conda-meta, completed with what the packages know of themselves; and what rattler can't unpack."""

import asyncio
import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envspec.base.errors import IndexFailure, StorageError
from envspec.base.progress import Progress
from envspec.install.conda import complete_records
from envspec.install.conda_cache import CondaCache, unpack_failure


def record(prefix: Path, **fields: object) -> Path:
    path = prefix / "conda-meta" / "tool-1.0-0.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"name": "tool", "version": "1.0", "depends": ["lib >=2"], **fields}))
    return path


def unpacked(folder: Path, **fields: object) -> str:
    (folder / "info").mkdir(parents=True)
    (folder / "info" / "index.json").write_text(json.dumps(fields))
    return str(folder)


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_what_only_the_package_knows(tmp_path: Path) -> None:
    folder = unpacked(
        tmp_path / "pkg",
        name="tool", version="9", depends=["old"], constrains=["x >1"], timestamp=5, noarch="python", features="",
    )  # fmt: skip
    path = record(tmp_path, extracted_package_dir=folder)
    complete_records(tmp_path, ["tool >=1", "lib"])
    assert read(path) == {
        "name": "tool",
        "version": "1.0",
        "depends": ["lib >=2"],
        "extracted_package_dir": folder,
        "constrains": ["x >1"],
        "timestamp": 5,
        "noarch": "python",
        "requested_specs": ["tool >=1"],
    }


def test_a_package_that_left_the_cache(tmp_path: Path) -> None:
    path = record(tmp_path, extracted_package_dir=str(tmp_path / "gone"), timestamp=5)
    complete_records(tmp_path)
    assert read(path)["timestamp"] == 5


def test_no_credentials_stay(tmp_path: Path) -> None:
    path = record(
        tmp_path,
        url="https://me:s3cret@mirror.example/forge/noarch/tool-1.0-0.conda",
        channel="https://me:s3cret@mirror.example/forge/",
    )
    complete_records(tmp_path)
    assert "s3cret" not in path.read_text()
    assert read(path)["url"] == "https://mirror.example/forge/noarch/tool-1.0-0.conda"


def test_a_complete_record_isnt_written(tmp_path: Path) -> None:
    path = record(tmp_path)
    complete_records(tmp_path)
    # not all of stat(): reading the record may move its time of access
    before = path.stat()
    complete_records(tmp_path)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    ("said", "kind"), [("invalid Zip archive", IndexFailure), ("No space left on device", StorageError)]
)
def test_what_rattler_cannot_unpack_is_told_as_damaged_or_as_a_full_disk(said: str, kind: type[Exception]) -> None:
    found = unpack_failure(OSError(f"failed to extract: {said}"), "tool")
    assert isinstance(found, kind) and said in str(found) and found.hint


def test_a_disk_that_fills_up_while_a_package_comes_is_no_broken_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rattler.package_streaming.download_to_writer", full)
    record = SimpleNamespace(url="https://channel.example.org/noarch/tool-1.0-0.conda", sha256=b"", size=1)
    cache = CondaCache(tmp_path, tmp_path, None, Progress())  # type: ignore[arg-type]
    with pytest.raises(OSError, match="No space left"):
        asyncio.run(cache._download(record, tmp_path / "archive", None))  # type: ignore[arg-type]
