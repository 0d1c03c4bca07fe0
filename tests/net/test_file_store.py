"""The store of fetched files: what is kept under a hash has it, and a download goes on only where it stopped."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.index import Answer, Index, _Handler
from support.packages import wheel

from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.net.file_store import BY_INDEX, FileStore, WantedFile, sha256_of

ALPHA = wheel("alpha", "1.0", padding=1 << 20)
WANTED = WantedFile(ALPHA.file, ALPHA.sha256, len(ALPHA.content), BY_INDEX)


@pytest.fixture
def store(index: Index, tmp_path: Path) -> FileStore:
    index.add(ALPHA)
    return FileStore(tmp_path, Fetcher(credentials={}, env={"UV_HTTP_RETRIES": "0", "NETRC": os.devnull}))


@pytest.mark.parametrize(("change", "said"), [({"sha256": "0" * 64}, "the content has sha256 "), ({"size": 7}, "")])
def test_a_file_of_another_hash_or_size_is_not_kept(
    change: dict[str, Any], said: str, store: FileStore, index: Index
) -> None:
    wanted = WANTED._replace(**change)
    with pytest.raises(IndexFailure, match=said or "larger than the 7 bytes") as error:
        store.fetch(index.file_url(ALPHA), wanted)
    assert error.value.hint and store.find(wanted) is None
    assert [path for path in store.folder.rglob("*") if path.is_file() and path.suffix != ".part"] == []


def test_a_file_of_which_only_the_url_is_known_is_kept_under_its_hash(store: FileStore, index: Index) -> None:
    known = store.fetch_unknown(index.file_url(ALPHA), ALPHA.file)
    assert (known.sha256, known.size) == (ALPHA.sha256, len(ALPHA.content))
    assert store.find_and_verify(WANTED) is not None


def test_what_is_left_of_a_download_has_no_word_of_its_url(
    store: FileStore, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL may have a token in its path."""
    monkeypatch.setattr("envspec.net.file_store._write", lambda out, piece: out.write(piece) and 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.fetch_unknown(index.file_url(ALPHA), ALPHA.file)
    (left,) = store.folder.iterdir()
    assert re.fullmatch(r"[0-9a-f]{64}\.part", left.name)


def test_what_a_server_changed_is_not_taken_for_what_it_was(store: FileStore, index: Index) -> None:
    """Who knows an ETag is sent 304 for the same file alone: any other answer is read."""
    known = store.fetch_unknown(index.file_url(ALPHA), ALPHA.file)
    older = known._replace(sha256="0" * 64, etag='"older"')
    assert store.fetch_unknown(index.file_url(ALPHA), ALPHA.file, older) == known
    index.fail("^/files/", lambda handler, answer: replace(answer, status=304, body=b""))
    assert store.fetch_unknown(index.file_url(ALPHA), ALPHA.file, older) == older
    with pytest.raises(IndexFailure):
        store.fetch_unknown(index.file_url(ALPHA), ALPHA.file)


def test_a_download_goes_on_where_it_stopped(store: FileStore, index: Index) -> None:
    (store.folder / f"{ALPHA.sha256}.part").write_bytes(ALPHA.content[:1000])
    came: list[int] = []
    assert sha256_of(store.fetch(index.file_url(ALPHA), WANTED, came.append)) == ALPHA.sha256
    assert sum(came[1:]) <= len(ALPHA.content) - 1000 and sum(came) == len(ALPHA.content)


def test_a_server_that_goes_on_elsewhere_is_asked_for_the_whole(store: FileStore, index: Index) -> None:
    """It answers 206, but with bytes from another place than the one asked for."""

    def elsewhere(handler: _Handler, answer: Answer) -> Answer:
        rest = ALPHA.content[500:]
        span = f"bytes 500-{len(ALPHA.content) - 1}/{len(ALPHA.content)}"
        return replace(answer, status=206, body=rest, headers=(("Content-Range", span),))

    index.fail("^/files/", elsewhere)
    (store.folder / f"{ALPHA.sha256}.part").write_bytes(ALPHA.content[:1000])
    with pytest.raises(IndexFailure, match="doesn't exist"):
        store.fetch(index.file_url(ALPHA), WANTED)
