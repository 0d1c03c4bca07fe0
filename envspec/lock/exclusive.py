"""One writer of a folder at a time, also across processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from envspec.base.flock import has_flock, hold, hold_by_file
from envspec.base.open_folder import Location, OpenFolder

LOCK_FILE = ".envspec-lock"


class Held(Struct, frozen=True):
    """A folder that is held. `descriptor` holds it, also in a program that inherits the descriptor, for as long as that
    program runs, even when this process is killed."""

    folder: OpenFolder
    descriptor: int


@contextmanager
def exclusive(place: Location | Path, on_wait: Callable[[], None]) -> Iterator[Held]:
    """Hold a folder until the block ends. `on_wait` is called before waiting for another process that holds it.

    The folder is made if need be, and is removed again if it's empty at the end. The lock is on the folder itself
    (flock), so even a killed process leaves nothing behind. Network filesystems can't lock a folder; there the lock is
    on a file in it, which is removed with the block, as always on Windows. Where even that can't be locked, two writers
    aren't kept apart.

    Raises NotPlain for a link in the folder's place, OSError.
    """
    location = place if isinstance(place, Location) else Location(place)
    if not has_flock():
        with _hold_without_flock(location, on_wait) as held:
            yield held
        return
    held = _acquire(location, on_wait)
    try:
        yield held
    finally:
        try:
            with suppress(OSError):
                held.folder.unlink(LOCK_FILE)
                location.remove_empty()
        finally:
            if held.descriptor != held.folder.descriptor:
                os.close(held.descriptor)
            held.folder.close()


def _acquire(location: Location, on_wait: Callable[[], None]) -> Held:
    while True:
        folder = location.open(make=True)
        try:
            if hold(folder.descriptor, on_wait):
                # Whoever we waited for may have taken away what we then locked: lock what is there now.
                with location.open(make=True) as reopened:
                    if os.path.samestat(os.fstat(folder.descriptor), os.fstat(reopened.descriptor)):
                        return Held(folder, folder.descriptor)
            else:
                descriptor = folder.open_file(LOCK_FILE, os.O_RDWR | os.O_CREAT)
                hold(descriptor, on_wait)
                current = folder.look(LOCK_FILE)
                if current is not None and os.path.samestat(os.fstat(descriptor), current):
                    return Held(folder, descriptor)
                os.close(descriptor)
        except FileNotFoundError:
            pass
        except BaseException:
            folder.close()
            raise
        folder.close()


@contextmanager
def _hold_without_flock(location: Location, on_wait: Callable[[], None]) -> Iterator[Held]:
    try:
        with location.open(make=True) as folder:
            folder.refuse_odd(LOCK_FILE)
            with hold_by_file(folder.path / LOCK_FILE, on_wait):
                yield Held(folder, folder.descriptor)
    finally:
        with suppress(OSError):
            location.remove_empty()
