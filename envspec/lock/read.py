"""The reading of a lock's text. Strict: a text that `envspec.lock.write` wouldn't print is refused, never repaired."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from envspec import __version__
from envspec.base.errors import LockError, Place, StorageError
from envspec.base.plain_files import read_operand
from envspec.lock.inventory import read_inventory
from envspec.lock.model import LOCK_VERSION, Lock, inventory_name
from envspec.lock.tables import RELOCK, Reader
from envspec.lock.write import digest_of, dumps

MOST_BYTES = 16 << 20
"""The largest lock. The largest of those that ship has 0.2 MiB; of 200 MiB, reading takes minutes and gigabytes."""

_VERSION = re.compile(r"^lock-version *= *(\d{1,9}) *\r?$", re.MULTILINE)
_READ_BY = re.compile(r"^# Read by envspec ([0-9]{1,4}(?:\.[0-9]{1,4}){1,2}) and newer\.", re.MULTILINE)
"""A line in a lock's head: it is the schema's, not the writer's, and names the release to install."""
_CONFLICT = re.compile(r"^(?:<{7} |={7}\r?$|>{7} )", re.MULTILINE)


class LockLayout(LockError):
    """A lock whose text isn't as envspec writes it, though it can be read: merged line by line, or edited by hand.

    `lock` is its content, which only a command that writes it anew may use.
    """

    def __init__(self, lock: Lock, place: Place) -> None:
        self.lock = lock
        super().__init__(
            "the lock is not as envspec writes it", place=place, hint="run `envspec lock`, which judges and rewrites it"
        )


class NewerLock(LockError):
    """A lock whose schema only a newer envspec reads."""


class OlderLock(LockError):
    """A lock of a schema from before the first release, which nothing reads."""


class LockConflict(LockError):
    """A lock with the markers of a merge that git couldn't do by lines. `envspec lock` merges it by package."""


def with_inventories(lock: Lock, read: Callable[[str], bytes | None], where: str) -> Lock:
    """Give a lock on a base with those inventories beside it whose digests it names. `read` gives the content of a file
    in the lock's folder, `where`. Raises InputError for a file that is no inventory."""
    inventories = {}
    for base in lock.bases:
        name = inventory_name(base.platform)
        content = read(name) or b""
        if digest_of(content) == f"sha256:{base.sha256}":
            inventories[base.platform] = read_inventory(content.decode("utf-8", "replace"), Place(f"{where}/{name}"))
    return lock.with_inventories(inventories) if lock.bases else lock


def load(path: Path) -> Lock:
    """Read a lock.

    Raises LockError when the file doesn't exist or isn't a usable lock, StorageError when the system can't read it.
    """
    return loads(load_text(path), str(path))


def load_text(path: Path) -> str:
    """Read the text of a lock. Raises as `load` does."""
    place = Place(str(path))
    try:
        content = read_operand(path, MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise LockError("there is no lock here", place=place, hint="run `envspec lock`") from None
    except IsADirectoryError:
        raise LockError("this is a folder, not a lock", place=place, hint="name the spec or its envspec.lock") from None
    except OSError as error:
        raise StorageError(f"the lock can't be read: {error.strerror}", place=place) from None
    return text_of(content, path)


def text_of(content: bytes, path: Path) -> str:
    """Decode a lock's bytes; `path` is only for messages. Raises LockError."""
    if len(content) > MOST_BYTES:
        most = f"{MOST_BYTES >> 20} MiB"
        raise LockError(f"larger than {most}, so it can't be a lock", place=Place(str(path)), hint=RELOCK)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LockError("the lock is not UTF-8", place=Place(str(path), line), hint=RELOCK) from None


def loads(text: str, path: str) -> Lock:
    """Parse a lock's text; `path` is only for messages.

    For every text that this accepts, `dumps(loads(text)) == text`. Raises NewerLock, OlderLock, LockError for a merge
    conflict or a text that isn't a valid lock, LockLayout for a valid one in another layout.
    """
    lock = read_for_display(text, path)
    written = dumps(lock)
    if written != text:
        raise _mishap(text, Place(path)) or LockLayout(lock, Place(path, _first_difference(written, text)))
    return lock


def read_for_display(text: str, path: str) -> Lock:
    """Parse a lock's text as `loads` does, for a command that only shows it: its layout may be another."""
    try:
        _refuse_other_schemas(text, path)
        return Reader(text, path).lock()
    except LockError as error:
        raise _mishap(text, Place(path)) or error from None


def _refuse_other_schemas(text: str, path: str) -> None:
    place = Place(path)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # git's driver keeps such bytes
            line = text.count("\n", 0, error.start) + 1
            raise LockError("the lock is not UTF-8", place=Place(path, line), hint=RELOCK) from None
    if not text.strip():
        raise LockError("the lock is empty", place=place, hint=RELOCK)
    match = _VERSION.search(text, 0, 1000)
    version = int(match[1]) if match else 0
    if version > LOCK_VERSION:
        read_by = _READ_BY.search(text, 0, 1000)
        raise NewerLock(
            f"the lock has schema {version}, and envspec {__version__} reads schema {LOCK_VERSION}",
            place=place,
            hint=f"install envspec {read_by[1]} or newer"
            if read_by
            else f"install an envspec newer than {__version__}",
        )
    if version < 1:
        raise LockError("the lock doesn't begin with its `lock-version`", place=place, hint=RELOCK)
    if version < LOCK_VERSION:
        raise OlderLock(
            f"the lock has schema {version}: it was written before envspec's first release",
            place=place,
            hint="`envspec lock` writes it anew",
        )


def _first_difference(written: str, text: str) -> int:
    lines = zip((*written.splitlines(keepends=True), None), (*text.splitlines(keepends=True), None), strict=False)
    return next(number for number, (expected, actual) in enumerate(lines, 1) if expected != actual)


def _mishap(text: str, place: Place) -> LockError | None:
    """Return the error of a text that git made unreadable; None where git isn't the cause."""
    conflict = _CONFLICT.search(text)
    if conflict:
        return LockConflict(
            "the lock holds a merge conflict",
            place=Place(place.file, text.count("\n", 0, conflict.start()) + 1),
            hint="run `envspec lock`, which merges both sides, then `git add` the lock's folder",
        )
    if "\r\n" in text:
        return LockError(
            "the lock has Windows line ends",
            place=place,
            hint="tell git to keep it as it is: `*.lock text eol=lf` in .gitattributes, then check it out again",
        )
    return None
