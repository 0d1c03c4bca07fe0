"""The sha256 of files whose page says none: taken of the file itself, once for what a server calls unchanged."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import field
from pathlib import Path
from typing import Any

from envspec.cache.entry import keep_entry, read_entry
from envspec.documents import read_json
from envspec.net.fetch import Fetcher
from envspec.record import dataclass
from envspec.settings import split_credentials


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

    def _kept(self, url: str) -> tuple[str, int]:
        head = self.fetcher.range(url, 0, 1)
        path = self._path(url, head.etag, head.total) if head.etag and head.total is not None else None
        if path is not None and (known := _read(path)) is not None:
            return known
        sha256, length = self.fetcher.digest(url)
        if path is not None and length == head.total:
            keep_entry(path, json.dumps([sha256, length]))
        return sha256, length

    def _path(self, url: str, etag: str | None, total: int | None) -> Path:
        key = hashlib.sha256("\0".join((split_credentials(url)[0], str(etag), str(total))).encode()).hexdigest()
        return self.folder / "releases-flat-v1" / key[:2] / f"{key[2:]}.json"


def _read(path: Path) -> tuple[str, int] | None:
    try:
        entry: Any = read_json(read_entry(path))
        sha256, length = entry
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    return (sha256, length) if type(sha256) is str and len(sha256) == 64 and type(length) is int else None
