"""A file that is read anywhere in it, by ranges."""

import io
from pathlib import Path
from random import Random

import pytest
from support.index import Index
from support.packages import wheel

from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.net.remote_file import TAIL, RemoteFile, open_remote

LARGE = wheel("large", "1.0", padding=5 << 20)


def opened(index: Index, folder: Path) -> RemoteFile:
    index.add(LARGE)
    fetcher = Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5)
    return open_remote(fetcher, index.file_url(LARGE), 1 << 30)


def test_any_part_is_that_of_the_file(index: Index, tmp_path: Path) -> None:
    file, same, random = opened(index, tmp_path), io.BytesIO(LARGE.content), Random(7)
    for _ in range(60):
        at, size = random.randrange(len(LARGE.content)), random.choice((1, 4096, 300_000))
        assert file.seek(at) == same.seek(at)
        assert file.read(size) == same.read(size)
    assert file.seek(-10, io.SEEK_END) and file.read(0) == b"" and file.read() == LARGE.content[-10:]


def test_whoever_reads_on_asks_less_and_less_often(index: Index, tmp_path: Path) -> None:
    file = opened(index, tmp_path)
    file.seek(0)
    while file.read(4096):
        pass
    assert len(index.asked) <= 9
    assert file.fetched <= len(LARGE.content) + TAIL


def test_a_place_before_the_start(index: Index, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="before the file's start"):
        opened(index, tmp_path).seek(-1)


def test_a_file_that_isnt_there(index: Index, tmp_path: Path) -> None:
    fetcher = Fetcher(credentials={}, env={"HOME": str(tmp_path)}, read_seconds=5)
    with pytest.raises(IndexFailure, match="doesn't exist"):
        open_remote(fetcher, index.file_url(LARGE), 1 << 30)


def test_a_server_without_ranges_gives_it_whole(index: Index, tmp_path: Path) -> None:
    index.ranges = False
    file = opened(index, tmp_path)
    file.seek(0)
    assert file.read() == LARGE.content and file.fetched == len(LARGE.content)
