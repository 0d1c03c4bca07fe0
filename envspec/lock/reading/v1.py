"""The lock's text in schema 1, as envspec wrote it before it judged locks: schema 2's tables, and digests."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import ClassVar

from envspec.errors import LockError, Place
from envspec.lock import keys
from envspec.lock.model import Lock
from envspec.lock.reading import v2
from envspec.lock.reading.document import RELOCK

_HEAD = re.compile(r'#[^\n]*\nlock-version = 1\ndigest = "sha256:([0-9a-f]{64})"\n')


def read(text: str, path: str) -> Lock:
    """Parse a text whose `lock-version` is 1. Raises LockError, also where its digest isn't that of what follows."""
    head = _HEAD.match(text)
    if head is None or hashlib.sha256(text[head.end() :].encode("utf-8", "surrogatepass")).hexdigest() != head[1]:
        raise LockError("the lock was edited by hand or cut short", place=Place(path), hint=RELOCK)
    return _Reader(text, path).lock()


class _Reader(v2.Reader):
    tables = (*(table for table in keys.TOP if table != "python"), "digest")
    target_keys: ClassVar[Mapping[str, type]] = {
        **{name: kind for name, kind in keys.TARGET.items() if name != "cpu"},
        "fingerprint": str,
    }
    package_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in keys.PACKAGE.items() if name not in ("publisher", "built-with")
    }
    artifact_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in keys.ARTIFACT.items() if name not in ("variant", "properties", "priorities")
    }
