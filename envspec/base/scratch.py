"""Scratch folders: one per run. The next run removes those of killed runs."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envspec.base.storage import CACHE, ELSEWHERE, storage_error

_PLACES = f"{CACHE}, or [cache] scratch,"
_LOOK = 0x1000
"""Windows' PROCESS_QUERY_LIMITED_INFORMATION."""


def new_folder(scratch: Path) -> Path:
    """Make a new, empty folder in one that goes."""
    return Path(tempfile.mkdtemp(dir=scratch))


@contextmanager
def scratch_folder(base: Path) -> Iterator[Path]:
    """Make a folder for one run: `<base>/<pid>-<host>-…`. Only its user can read it: during the run it holds addresses
    with credentials.

    Removes the folders of this host's killed processes first.
    """
    try:
        base.mkdir(parents=True, exist_ok=True)
        _sweep(base)
        folder = base / f"{os.getpid()}-{_host()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise storage_error(error, base, option=_PLACES, again=ELSEWHERE) from None
    try:
        yield folder
    except OSError as error:
        # what runs in the block answers for its own files elsewhere
        raise storage_error(error, base, option=_PLACES, again=ELSEWHERE) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _host() -> str:
    """Give a short name for this host. Several hosts may share a home folder, and a process id holds for one of
    them.
    """
    return hashlib.sha256(socket.gethostname().encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _sweep(base: Path) -> None:
    for entry in base.iterdir():
        if _is_here(entry.name) and not is_running(entry.name):
            shutil.rmtree(entry, ignore_errors=True)


def is_running(name: str) -> bool:
    """Return whether a run may be at the scratch folder of this name: one of this host that lives, or one of another
    host."""
    return not _is_here(name) or _alive(int(name.partition("-")[0]))


def _is_here(name: str) -> bool:
    pid, _, rest = name.partition("-")
    return pid.isdecimal() and rest.startswith(f"{_host()}-")


def _alive(pid: int) -> bool:
    if sys.platform == "win32":
        # its os.kill would end the process
        import ctypes

        return bool(ctypes.windll.kernel32.OpenProcess(_LOOK, False, pid))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
