"""Environments in use: a program holds a file of its environment, for as long as it or its children run.

The system lets go of it when the last of them ends, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envspec.base.cache import touch
from envspec.base.flock import has_flock, hold_now
from envspec.install.environments.ready import RECORDS, STATE

_FILE = f"{RECORDS}/running"


def hold(prefix: str) -> bool:
    """Hold an environment until this process and the program that takes its place have ended. False where it is about
    to be removed, and has to be made again. A system without such locks lets every run pass."""
    if not has_flock():
        return True
    try:
        if not os.path.exists(os.path.join(prefix, STATE)):
            return False
        descriptor = os.open(os.path.join(prefix, _FILE), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileNotFoundError:
        return False
    except OSError:
        # another user's, or a filesystem that is read-only: whoever can't write to it can't remove it either
        return True
    held = hold_now(descriptor, shared=True)
    if not held:
        os.close(descriptor)
        return held is None
    if not os.path.exists(os.path.join(prefix, _FILE)):
        os.close(descriptor)
        return False
    os.set_inheritable(descriptor, True)
    touch(Path(prefix))
    return True


@contextmanager
def keep_free(prefix: Path) -> Iterator[bool]:
    """Keep programs from starting in an environment for a block. Gives False where one runs in it, or another envspec
    is making it."""
    if not has_flock():
        yield True
        return
    held: list[int] = []
    try:
        free = True
        locks = [(prefix, os.O_RDONLY)]
        if (prefix / STATE).exists():
            locks.append((prefix / _FILE, os.O_RDWR | os.O_CREAT))
        for path, flags in locks:
            # what isn't there, or is no plain file, holds nothing
            with suppress(OSError):
                held.append(os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600))
                free = hold_now(held[-1]) is not False and free
        yield free
    finally:
        for descriptor in held:
            os.close(descriptor)
