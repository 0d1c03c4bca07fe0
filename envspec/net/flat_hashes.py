"""The sha256 of files whose page says none: taken of the file itself, once for what a server calls unchanged."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import msgspec

from envspec.base.cache.entry import keep_value, read_value
from envspec.base.settings import split_credentials
from envspec.net.fetch import Fetcher


@dataclass(frozen=True)
class _Known:
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    size: int


@dataclass
class FlatHashes:
    """Hashes by URL. `folder` is the cache's; `fetcher` has the limits."""

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
                self._known[url] = self._kept(url)
            return self._known[url]

    def taken(self) -> tuple[str, ...]:
        """List the URLs of files that were hashed in this run."""
        with self._lock:
            return tuple(self._known)

    def _kept(self, url: str) -> tuple[str, int]:
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
