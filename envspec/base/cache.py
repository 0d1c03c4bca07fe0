"""Entries of a cache: reading, writing, measuring and removing one.

No command fails by reading or writing an entry: what is missing is found out again.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from envspec.base.documents import decode, encode
from envspec.base.errors import NotPlain
from envspec.base.open_folder import OpenFolder

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
    """Write a value as an entry: records, tuples, texts, numbers, bytes."""
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


class Entry(Struct, frozen=True):
    """The unit of pruning: it goes as a whole, or stays.

    parts  its files or folders, as paths below the cache with `/`, in the order in which they are taken away
    size   bytes
    used   the time of its last use, seconds since 1970
    busy   a run is at it
    """

    kind: str
    parts: tuple[str, ...]
    size: int
    used: float
    busy: bool = False


def remove(cache: OpenFolder, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Take entries away. Gives those that are gone, and why others aren't, a line each.

    Each is renamed away first, so that no other run finds half of one, on any filesystem and without a lock; then it is
    deleted from the folder that is held open, through no link.
    """
    gone, reasons = [], []
    going = f".going-{secrets.token_hex(8)}"
    for entry in entries:
        try:
            for part in entry.parts:
                _take(cache, part, going)
            gone.append(entry)
        except NotPlain as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"{cache.path / entry.parts[-1]} can't be removed: {error.strerror or error}")
    with suppress(OSError):
        cache.rmdir(going)
    return tuple(gone), tuple(reasons)


def _take(cache: OpenFolder, path: str, going: str) -> None:
    above, _, name = path.rpartition("/")
    try:
        with cache.descend(above) as folder:
            if folder.look(name) is None:
                return
            if not folder.is_folder(name):
                # a link goes itself
                folder.unlink(name)
                return
            if path == name and name.startswith(".going-"):
                _empty(folder, name)
                return
            with cache.enter(going, make=True) as away:
                gone = secrets.token_hex(8)
                folder.move(name, away, gone)
                _empty(away, gone)
    except FileNotFoundError:
        # another run was quicker
        return


def _empty(folder: OpenFolder, name: str) -> None:
    """Remove a folder and all that is in it. What is still open somewhere stays on some network filesystems, under
    another name, until the next time."""
    with folder.enter(name) as below:
        for member in below.names():
            if below.is_folder(member):
                _empty(below, member)
            else:
                below.unlink(member)
    folder.rmdir(name)


def size_and_use(folder: OpenFolder, path: str, *, alone: bool = False) -> tuple[int, float] | None:
    """Give the bytes of something below a folder, with all that is in it, and the time of its last use; None where it
    went away. With `alone`, files with a second name elsewhere don't count."""
    above, _, name = path.rpartition("/")
    try:
        with folder.descend(above) as holder:
            status = holder.look(name)
            if status is None:
                return None
            if not holder.is_folder(name):
                return status.st_size if stat.S_ISREG(status.st_mode) else 0, status.st_mtime
            with holder.enter(name) as below:
                return _bytes_in(below, 1 if alone else None), status.st_mtime
    except FileNotFoundError:
        return None


def _bytes_in(folder: OpenFolder, names: int | None) -> int:
    """Sum up the bytes of plain files; `names` is how many names a file may have to count, None for any."""
    size = 0
    for name in folder.names():
        status = folder.look(name)
        if status is not None and stat.S_ISREG(status.st_mode):
            size += status.st_size if names is None or status.st_nlink <= names else 0
        elif folder.is_folder(name):
            with folder.enter(name) as below:
                size += _bytes_in(below, names)
    return size
