"""Atomic writes: a reader finds either the old text or the new one, and no temporary file stays for ever.

A writer puts new files into a staging folder `.envspec-<16 hex digits>` and syncs them; when all are complete, it
renames each into its place. A writer that is killed in between leaves some files new and some old, so callers order
their changes: first the files that the others are made from. It also leaves its staging folder, which the next writer
in that place removes. A staging folder is in use while the file `held` in it is locked. envspec removes only its own
files from a staging folder and reads none of them. It follows no link (`envspec.base.open_folder`).
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from posixpath import split
from types import FrameType
from typing import BinaryIO

from envspec.base.errors import NotPlain
from envspec.base.flock import hold_now
from envspec.base.open_folder import Location, OpenFolder, locate

_STAGING = re.compile(r"\.envspec-[0-9a-f]{16}")
_STAGED = re.compile(r"\d{1,6}")
_HELD = "held"
_SECONDS = 24 * 3600
"""The age in seconds from which on a staging folder is removed where the filesystem has no locks."""
_TO_SYNC = os.O_RDWR if os.name == "nt" else os.O_RDONLY
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Unfinished(OSError):
    """An error after some of several files were changed, and before the others were."""


def replace_files(folder: OpenFolder, *steps: Mapping[str, bytes | None], executable: Collection[str] = ()) -> None:
    """Write these bytes to the files at these paths (relative, with `/`), or remove a file for None, in this order.

    A later step may change a file again. Makes folders as needed and removes those that lose their last file. Changes
    nothing before all new files are on the disk, and then holds back Ctrl-C. Callers must not run two at once.

    Raises NotPlain for a link or the like in a file's place, OSError when all old files are whole, Unfinished when some
    are changed.
    """
    sweep(folder)
    changes = [change for step in steps for change in step.items()]
    made: list[str] = []
    try:
        for path, content in changes:
            if content is not None:
                _make(folder, split(path)[0], made)
        present = {path for path, _ in changes if _exists(folder, path)}
        needed = [(path, content) for path, content in changes if content is not None or path in present]
        with _staging(folder) as staging:
            staged = _stage(folder, staging, needed, executable)
            with _defer_signals():
                _apply(folder, staging, staged)
    except BaseException:
        for path in reversed(made):
            _remove_empty(folder, path)
        raise


@contextmanager
def stage_file(folder: Location, name: str) -> Iterator[BinaryIO]:
    """Open a file that becomes `name` in `folder` when the block succeeds; an exception discards it.

    Makes the folders above it. Raises NotPlain, OSError.
    """
    with folder.open(make=True) as place:
        sweep(place)
        place.refuse_odd(name)
        with _staging(place) as staging:
            with place.name_whole_path(name):
                created = staging.create("0")
            with created as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            staging.move("0", place, name)
            place.sync()


def write_text(folder: Location, name: str, text: str) -> None:
    """Write a text in UTF-8, and make the folders above it. A failure leaves nothing behind. Raises as `stage_file`."""
    with stage_file(folder, name) as file:
        file.write(text.encode())


def write_file(path: Path, text: str) -> None:
    """Write a text to a path that the user named, or that is envspec's own (`envspec.base.open_folder.locate`)."""
    write_text(locate(path.parent), path.name, text)


def refuse_read_only(folder: OpenFolder) -> None:
    """Raise what a write into this folder would raise."""
    with _staging(folder):
        pass


def is_staging(name: str) -> bool:
    """Return whether a folder of this name is one that a writer stages files in."""
    return _STAGING.fullmatch(name) is not None


def sweep(folder: OpenFolder) -> None:
    """Remove the staging folders of writers that were killed here. What can't be removed stays for the next writer."""
    with suppress(OSError):
        for name in folder.names():
            if _STAGING.fullmatch(name) and folder.is_folder(name):
                with suppress(OSError, NotPlain):
                    _sweep(folder, name)


def _sweep(folder: OpenFolder, name: str) -> None:
    with folder.enter(name) as staging:
        if staging.refuse_odd(_HELD) is None:
            # made or given up at this moment, or not ours
            folder.rmdir(name)
        elif (descriptor := _hold(staging, os.O_RDWR)) is not None:
            try:
                _discard(folder, name, staging)
            finally:
                os.close(descriptor)


def _hold(staging: OpenFolder, flags: int) -> int | None:
    """Lock a staging folder and give the lock's descriptor; None where another process holds the lock."""
    descriptor = staging.open_file(_HELD, flags)
    held = hold_now(descriptor)
    # no locks here: a file that nobody has touched for so long is nobody's
    young = not flags & os.O_CREAT and time.time() - os.fstat(descriptor).st_mtime < _SECONDS
    if held is False or (held is None and young):
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _staging(folder: OpenFolder) -> Iterator[OpenFolder]:
    """Make a staging folder, and remove it at the end of the block."""
    name, staging, descriptor = _make_staging(folder)
    try:
        with staging:
            try:
                yield staging
            finally:
                with suppress(OSError):
                    _discard(folder, name, staging)
    finally:
        os.close(descriptor)


def _make_staging(folder: OpenFolder) -> tuple[str, OpenFolder, int]:
    """Make a staging folder; give its name, the folder and its lock's descriptor. Another writer may remove it before
    it is locked: then try again.
    """
    while True:
        name = f".envspec-{os.urandom(8).hex()}"
        with folder.name_whole_path():
            folder.mkdir(name)
            try:
                staging = folder.enter(name)
            except FileNotFoundError:
                continue
            try:
                descriptor = _hold(staging, os.O_RDWR | os.O_CREAT | os.O_EXCL)
                if descriptor is not None:
                    if os.fstat(descriptor).st_nlink:
                        return name, staging, descriptor
                    os.close(descriptor)
            except FileNotFoundError:
                pass
            except BaseException:
                with suppress(OSError):
                    folder.rmdir(name)
                staging.close()
                raise
            staging.close()


def _discard(folder: OpenFolder, name: str, staging: OpenFolder) -> None:
    """Remove a staging folder. The lock's file goes last: a folder without one holds none of envspec's files."""
    for file in staging.names():
        if _STAGED.fullmatch(file):
            staging.unlink(file)
    staging.unlink(_HELD)
    folder.rmdir(name)


def _stage(
    folder: OpenFolder, staging: OpenFolder, changes: Iterable[tuple[str, bytes | None]], executable: Collection[str]
) -> list[tuple[str, str | None]]:
    """Write the new files; give each path with the name of its staged file, None for a file that goes."""
    staged: list[tuple[str, str | None]] = []
    for number, (path, content) in enumerate(changes):
        staged.append((path, None if content is None else str(number)))
        if content is not None:
            with folder.name_whole_path(path), staging.create(str(number), executable=path in executable) as file:
                file.write(content)
    # All are written before the first is synced, so that the system may write them out together.
    for path, name in staged:
        if name is not None:
            with folder.name_whole_path(path):
                descriptor = staging.open_file(name, _TO_SYNC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
    return staged


def _apply(folder: OpenFolder, staging: OpenFolder, staged: Iterable[tuple[str, str | None]]) -> None:
    begun = False
    emptied: list[str] = []
    try:
        for above, changes in groupby(staged, lambda change: split(change[0])[0]):
            with folder.descend(above) as place:
                for path, new in changes:
                    name = split(path)[1]
                    if new is None:
                        place.unlink(name)
                        emptied.append(above)
                    else:
                        staging.move(new, place, name)
                    begun = True
                place.sync()
    except OSError as error:
        if begun:
            raise Unfinished(error.errno, error.strerror, error.filename) from None
        raise
    for above in dict.fromkeys(emptied):
        _remove_empty(folder, above)


def _make(folder: OpenFolder, path: str, made: list[str]) -> None:
    """Make the folders of a path, and note the new ones."""
    names = path.split("/") if path else []
    for count in range(1, len(names) + 1):
        ancestor = "/".join(names[:count])
        above, name = split(ancestor)
        with folder.descend(above) as place:
            if place.look(name) is None:
                place.mkdir(name)
                made.append(ancestor)
            place.enter(name).close()


def _exists(folder: OpenFolder, path: str) -> bool:
    """Check that a path leads to a plain file or nothing. Raises NotPlain, IsADirectoryError."""
    above, name = split(path)
    try:
        with folder.descend(above) as place:
            return place.refuse_odd(name) is not None
    except FileNotFoundError:
        return False


def _remove_empty(folder: OpenFolder, path: str) -> None:
    """Remove a folder if it's empty: a user's own file keeps it."""
    above, name = split(path)
    if name:
        with suppress(OSError), folder.descend(above) as place:
            place.rmdir(name)


def remove_empty_folders(folder: OpenFolder) -> None:
    """Remove the empty folders below one in which all folders are envspec's: a writer that was killed left them."""
    with suppress(OSError):
        for name in folder.names():
            if folder.is_folder(name):
                with suppress(OSError, NotPlain):
                    with folder.enter(name) as below:
                        remove_empty_folders(below)
                    folder.rmdir(name)


@contextmanager
def _defer_signals() -> Iterator[None]:
    """Hold back Ctrl-C and other signals until the block, a few renames, has ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        came.append(number)

    numbers = [number for name in _SIGNALS if (number := getattr(signal, name, None)) is not None]
    before = {number: signal.signal(number, remember) for number in numbers if callable(signal.getsignal(number))}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt("the begun change is written")
