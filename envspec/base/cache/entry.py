"""Reading and writing one entry of the cache. No command fails by either: what is missing is found out again."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from envspec.base.documents import decode, encode

_EVERY = 6 * 3600


def touch(path: Path) -> None:
    """Note that it is used now. Access times won't do: many filesystems keep none. Nothing happens where it can't be
    noted, for the cache may be read-only."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _EVERY:
            os.utime(path)


_Value = TypeVar("_Value")


def read_entry(path: Path) -> bytes:
    """Read an entry, and note that it is used now. Raises OSError."""
    content = path.read_bytes()
    touch(path)
    return content


def read_value(path: Path, kind: type[_Value]) -> _Value | None:
    """Read what `keep_value` kept; None where there is nothing, and where the entry is damaged or of another type."""
    try:
        return decode(read_entry(path), kind)
    except (OSError, ValueError):
        return None


def keep_value(path: Path, value: object) -> None:
    """Write a value as an entry: frozen dataclasses, tuples, texts, numbers, bytes."""
    keep_entry(path, encode(value))


def keep_entry(path: Path, content: str | bytes) -> None:
    """Write an entry as a whole. An unwritable cache (full, read-only) is no error: the caller has the answer."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
