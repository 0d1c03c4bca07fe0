"""The one opener of files that envspec didn't make: those of a repository, an archive, a bundle, a prefix or a base.

Such a file is plain, and no link leads to it out of its repository. Whatever else stands there is refused at once: a
pipe without a writer never ends, and opening a device may do things. What a user names elsewhere may be a pipe.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import BinaryIO

from envspec.base.errors import InputError, NotPlain, Place
from envspec.base.open_folder import kind_of
from envspec.base.places import refuse_link_out, repository_of
from envspec.base.texts import printable

SECONDS = 300.0
"""The time in which the writer of a pipe has to be done."""
_NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_PIECE = 1 << 16


def open_plain(path: str | Path, *, links_out: bool = False) -> BinaryIO:
    """Open a plain file for reading. Never waits. With `links_out`, a link may lead out of the repository: an
    environment's files may be links to a cache.

    Raises InputError for a link that leads out, NotPlain for a pipe, a socket or a device, OSError.
    """
    if not links_out:
        refuse_link_out(Path(path))
    # before it is opened, since that makes a terminal of /dev/ptmx, and rewinds a tape
    _refuse_odd(path, os.stat(path))
    file = open(path, "rb", opener=_open)  # noqa: SIM115 - the caller closes it
    try:
        # exchanged since the first look
        _refuse_odd(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def read_plain(path: str | Path, most: int | None = None, *, links_out: bool = False) -> bytes:
    """Read a plain file, no more than `most` bytes of it. Raises as `open_plain`."""
    with open_plain(path, links_out=links_out) as file:
        return file.read(-1 if most is None else most)


def read_operand(path: str | Path, most: int) -> bytes:
    """Read a file that the user named, no more than `most` bytes of it: below the current folder and in a repository a
    plain one, elsewhere also a pipe or the standard input, which has `SECONDS` to end.

    Raises as `open_plain`, and InputError for a pipe that doesn't end, or brings nothing: its writer failed.
    """
    if repository_of(str(path)) not in (None, os.sep) or stat.S_ISREG(os.stat(path).st_mode):
        return read_plain(path, most)
    with open(path, "rb", buffering=0, opener=_open) as file:
        content = _read_in_time(path, file.fileno(), most)
        if not content and not stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
            hint = "check the command that writes into it; for an empty file, name /dev/null"
            raise InputError("nothing came through this pipe", hint=hint, place=_place(path))
        return content


def _read_in_time(path: str | Path, descriptor: int, most: int) -> bytes:
    if not hasattr(select, "poll"):  # Windows, whose pipes have no place in a folder
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(most)
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    content = bytearray()
    end = time.monotonic() + SECONDS
    while len(content) < most:
        # of a named pipe that no writer has opened yet, a read would give its end
        if not waiting.poll(max(0.0, end - time.monotonic()) * 1000):
            raise InputError(
                f"nothing more came for {SECONDS:g} s", hint="name a file, or end what writes", place=_place(path)
            )
        try:
            piece = os.read(descriptor, min(_PIECE, most - len(content)))
        except BlockingIOError:
            continue
        if not piece:
            break
        content += piece
        if time.monotonic() > end:
            raise InputError(f"it didn't end within {SECONDS:g} s", hint="name a file", place=_place(path))
    return bytes(content)


def refuse_odd_file(path: str | Path) -> None:
    """Raise NotPlain for a pipe or a device that another program is about to open; OSError. A socket can't be opened,
    and may be a daemon's of that program."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISSOCK(status.st_mode):
        _refuse_odd(path, status)


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_WAIT)


def _refuse_odd(path: str | Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise NotPlain(
            f"this is {kind_of(status)}; envspec reads plain files only",
            place=_place(path),
            hint="find out where it comes from, then remove it",
        )


def _place(path: str | Path) -> Place:
    return Place(printable(str(path)))
