"""Locks of open files among a machine's processes (flock), which end with whoever holds them; filelock where there is
none (Windows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment] # Windows


def has_flock() -> bool:
    """Return whether this system locks open files and folders."""
    return fcntl is not None


def hold(descriptor: int, on_wait: Callable[[], None] = lambda: None) -> bool:
    """Hold an open file or folder alone, calling `on_wait` before waiting for another process. False where the system
    or the filesystem can't lock it.
    """
    held = hold_now(descriptor)
    if held is False:
        on_wait()
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return held is not None


def hold_now(descriptor: int, *, shared: bool = False) -> bool | None:
    """Hold an open file or folder, alone or with others that share it. False where another process holds it, None where
    the system or the filesystem can't lock it.
    """
    if not has_flock():
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def hold_by_file(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold a lock that is a file of its own, on systems without flock. Raises OSError."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
