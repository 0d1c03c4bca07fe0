"""The lock's text in its older schemas, each as the next one without what that brought."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from envspec.base.errors import LockError, Place
from envspec.lock import keys
from envspec.lock.model import Lock
from envspec.lock.reading import v3
from envspec.lock.reading.document import RELOCK


def read_second(text: str, path: str) -> Lock:
    """Parse a text whose `lock-version` is 2. Raises LockError."""
    return SecondReader(text, path).lock()


class SecondReader(v3.Reader):
    """A reading of one text, table by table."""

    schema = 2
    target_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in v3.Reader.target_keys.items() if name != "python-range"
    }
    package_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in v3.Reader.package_keys.items() if name not in ("requires-python", "overwrites")
    }


# The lock's text in schema 1, as envspec wrote it before it judged locks: schema 2's tables, and digests.

_HEAD = re.compile(r'#[^\n]*\nlock-version = 1\n(digest = "sha256:([0-9a-f]{64})"\n)')
_FINGERPRINT = re.compile(r'^fingerprint = "sha256:[0-9a-f]{64}"\n', re.MULTILINE)
_TARGET = re.compile(r"^\[targets\.[^\n]+\]\n(?:[^\n]+\n)*", re.MULTILINE)


def read_first(text: str, path: str) -> Lock:
    """Parse a text whose `lock-version` is 1. Raises LockError, also where its digest isn't that of what follows."""
    import hashlib

    head = _HEAD.match(text)
    if head is None or hashlib.sha256(text[head.end() :].encode("utf-8", "surrogatepass")).hexdigest() != head[2]:
        raise LockError("the lock was edited by hand or cut short", place=Place(path), hint=RELOCK)
    return _FirstReader(text, path).lock()


def with_digests(written: str, text: str) -> str:
    """Give a lock as it is written without digests, with those of a text that `read` takes, each in its place."""
    head, fingerprints = _HEAD.match(text), iter(_FINGERPRINT.findall(text))
    assert head is not None
    written = written.replace("lock-version = 2\n", f"lock-version = 1\n{head[1]}", 1)
    return _TARGET.sub(lambda table: table[0] + next(fingerprints, ""), written)


class _FirstReader(SecondReader):
    tables = (*(table for table in keys.TOP if table != "python"), "digest")
    target_keys: ClassVar[Mapping[str, type]] = {
        **{name: kind for name, kind in SecondReader.target_keys.items() if name != "cpu"},
        "fingerprint": str,
    }
    package_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in SecondReader.package_keys.items() if name not in ("publisher", "built-with")
    }
    artifact_keys: ClassVar[Mapping[str, type]] = {
        name: kind
        for name, kind in v3.Reader.artifact_keys.items()
        if name not in ("variant", "properties", "priorities")
    }
