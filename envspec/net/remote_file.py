"""A file on a server: read anywhere in it by byte ranges, fetched on demand, or hashed where its page has no hash."""

from __future__ import annotations

import errno
import hashlib
import io
import threading
import time
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Struct, field

from envspec.base.cache import keep_value, read_value
from envspec.base.errors import IndexFailure
from envspec.base.redact import redact
from envspec.configuration.settings import split_credentials
from envspec.net.fetch import Fetcher, Reply
from envspec.net.transport import deadline

TAIL = 64 << 10
"""Bytes of the end that are fetched first, where an archive has its list of entries; then the least of any fetch."""

_MOST_AHEAD = 2 << 20


class DamagedFile(IndexFailure):
    """A file whose content isn't a wheel, or not one of that name: another try can't help."""


class RemoteFile(io.RawIOBase):
    """A file of `total` bytes at a URL, whose last bytes are read already.

    Each sequential read fetches twice as much as the one before, up to 2 MiB. `fetched` counts the received bytes. All
    parts together may take `whole_seconds`, and the time of the received bytes at `bytes_per_second`. Reading raises
    IndexFailure, and DamagedFile for more at once than an archive's list of entries may have.
    """

    def __init__(self, fetcher: Fetcher, url: str, total: int, tail: bytes) -> None:
        self.total = total
        self._at = 0
        self._fetcher, self._url = fetcher, url
        self._start, self._bytes = total - len(tail), tail
        self._ahead = TAIL
        self.fetched = len(tail)
        self._waited = 0.0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.total}[whence] + offset
        if at < 0:  # as the system says it of a file; zipfile expects that
            raise OSError(errno.EINVAL, "a place before the file's start")
        self._at = at
        return at

    def read(self, size: int = -1) -> bytes:
        end = self.total if size is None or size < 0 else min(self._at + size, self.total)
        if self._at < self._start or end > self._start + len(self._bytes):
            self._fetch(end)
        chunk = self._bytes[self._at - self._start : end - self._start]
        self._at += len(chunk)
        return chunk

    def _fetch(self, end: int) -> None:
        if end - self._at > self._fetcher.limits.directory_bytes:
            message = f"{redact(self._url)}: its list of entries is too long: {end - self._at} bytes"
            raise DamagedFile(message, hint="report this to whoever runs the index: the wheel is hostile or broken")
        read_end = self._start + len(self._bytes)
        previous = self._bytes[self._at - self._start :] if self._start <= self._at < read_end else b""
        begin = self._at + len(previous)
        goes_on = begin == read_end
        self._ahead = min(2 * self._ahead, _MOST_AHEAD) if goes_on else TAIL
        length = min(max(end - begin, self._ahead), self.total - begin)
        bounds, started = self._fetcher.limits, time.monotonic()
        left = bounds.whole_seconds + self.fetched / bounds.bytes_per_second - self._waited
        with deadline(left) as whole, whole.holds():
            reply = self._fetcher.range(self._url, begin, length)
        self._waited += time.monotonic() - started
        if reply.status != 206 or len(reply.body) < end - begin:
            hint = "run the same command again"
            raise IndexFailure(f"{redact(self._url)}: the server sent less than the range asked for", hint=hint)
        self.fetched += len(reply.body)
        self._start, self._bytes = self._at, previous + reply.body


def open_tail(fetcher: Fetcher, url: str, most: int) -> Reply:
    """Fetch the last bytes of a file, or the whole file, of at most `most` bytes, where a strict server refuses a range
    that is longer than the file. A server without ranges gives an empty body. Raises IndexFailure, also for a file that
    doesn't exist."""
    tail = fetcher.range(url, None, TAIL)
    if tail.status == 416:
        tail = fetcher.get(url, limit=most)
    if tail.status == 404:
        hint = "report this to whoever runs the index: it lists a file that it doesn't have"
        raise IndexFailure(f"{redact(url)} doesn't exist (HTTP 404)", hint=hint)
    return tail


def open_remote(fetcher: Fetcher, url: str, most: int) -> RemoteFile:
    """Open a file by its last bytes. A server without ranges is asked for the whole file, of at most `most` bytes.
    Raises IndexFailure."""
    tail = open_tail(fetcher, url, most)
    if tail.status == 200 and not tail.body:
        tail = fetcher.get(url, limit=most)
    partial = tail.status == 206 and tail.total is not None
    return RemoteFile(fetcher, url, tail.total if partial and tail.total else len(tail.body), tail.body)


class _Known(Struct, frozen=True):
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    size: int


class FileHashes(Struct):
    """The hashes of files whose page has none, by URL. `folder` is the cache's; `fetcher` has the limits."""

    folder: Path
    fetcher: Fetcher
    _known: dict[str, tuple[str, int]] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, url: str) -> tuple[str, int]:
        """Give a file's sha256 and its length in bytes: by reading it whole, or from the cache where the server's ETag
        and length are those of the last reading. Raises IndexFailure."""
        with self._lock:
            own = self._locks.setdefault(url, threading.Lock())
        with own:
            if url not in self._known:
                self._known[url] = self._look_up(url)
            return self._known[url]

    def hashed_urls(self) -> tuple[str, ...]:
        """List the URLs of files that were hashed in this run."""
        with self._lock:
            return tuple(self._known)

    def _look_up(self, url: str) -> tuple[str, int]:
        head = self.fetcher.range(url, 0, 1)
        path = self._path(url, head.etag, head.total) if head.etag and head.total is not None else None
        if path is not None and (known := read_value(path, _Known)):
            return known.sha256, known.size
        sha256, length = self.fetcher.digest(url)
        if path is not None and length == head.total:
            keep_value(path, _Known(sha256, length))
        return sha256, length

    def _path(self, url: str, etag: str | None, total: int | None) -> Path:
        key = hashlib.sha256("\0".join((split_credentials(url)[0], str(etag), str(total))).encode()).hexdigest()
        return self.folder / "releases-flat-v2" / key[:2] / f"{key[2:]}.json"
