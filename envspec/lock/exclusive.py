"""One writer of a folder at a time, also across processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK_FILE = ".envspec-lock"


@contextmanager
def exclusive(folder: Path, on_wait: Callable[[], None]) -> Iterator[int]:
    """Hold `folder` until the block ends. `on_wait` is called before waiting for another process that holds it.

    Gives the descriptor that holds it: a program that inherits it holds the folder as long as it runs, even when this
    process is killed.

    The folder is made if need be, and goes again if it's empty at the end. It is itself what's locked (flock), so
    nothing is left behind even by a killed process. Network filesystems can't lock a folder; there a file in it stands
    for it, which goes with the block. Where not even that can be locked, two writers aren't kept apart.

    Raises OSError.
    """
    descriptor = _acquire(folder, on_wait)
    try:
        yield descriptor
    finally:
        with suppress(OSError):
            (folder / LOCK_FILE).unlink(missing_ok=True)
            folder.rmdir()
        os.close(descriptor)


def _acquire(folder: Path, on_wait: Callable[[], None]) -> int:
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        for path, flags in ((folder, os.O_RDONLY), (folder / LOCK_FILE, os.O_RDWR | os.O_CREAT)):
            try:
                descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
            except FileNotFoundError:
                break
            locked = _flock(descriptor, on_wait)
            # Whoever we waited for may have taken away what we then locked: lock what is there now.
            if (locked or path != folder) and _is_at(descriptor, path):
                return descriptor
            os.close(descriptor)
            if locked:
                break


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _flock(descriptor: int, on_wait: Callable[[], None]) -> bool:
    """Lock an open file or folder, waiting for it. False where the filesystem can't lock it."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        return False
    return True
