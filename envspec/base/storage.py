"""The system's errors in envspec's words: those about files, and those of a program without memory or threads."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from envspec.base.errors import Place, StorageError, ToolError

_TOO_MANY = (errno.EMFILE, errno.ENFILE)
MORE_FILES = "raise the limit on open files, such as `ulimit -n 1024`, then run again"
_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
CACHE = "ENVSPEC_CACHE_DIR"
ELSEWHERE = f"run again, or give {CACHE} another place"
OF_THE_MACHINE = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK),
    }
)
"""The errors that say nothing of what is read or written: the disk, a quota, a right or a limit is at fault."""
_STORAGE_WORDS = re.compile(
    r"No space left on device|Disk quota exceeded|File too large|Read-only file system|Permission denied"
    r"|Operation not permitted|Input/output error|Stale file handle|Too many open files"
)
"""The system's words for these errors, by which other programs tell them."""


def storage_error(
    error: OSError, path: Path, *, option: str, again: str = "run again", doing: str = "can't be written"
) -> StorageError:
    """Make the StorageError for an error at `path`, or at the error's own path.

    `option` is the one that gives files another place ("-o"), `again` what to do once there is room.
    """
    hints = {
        errno.ENOSPC: f"free some space, then {again}",
        errno.EDQUOT: f"your quota is used up: remove some files, then {again}",
        errno.EFBIG: f"files may be no larger here (ulimit -f, or the file system): raise the limit, then {again}",
        errno.EROFS: f"the filesystem is read-only: give {option} a place that isn't",
        errno.EACCES: f"check the permissions there, or give {option} another place",
        errno.EPERM: f"check the permissions there, or give {option} another place",
    }
    named = error.filename2 or error.filename
    where = Path(named) if isinstance(named, str) else path
    if where.parent == path.parent:
        # what is written first, beside the file, has a name that tells nobody anything
        where = path
    if error.errno in _IN_THE_WAY:
        for candidate in (where, path, *path.parents):
            if candidate.is_file():
                hint = f"move it away, or give {option} another place"
                return StorageError("this is a file; a folder is needed", place=Place(str(candidate)), hint=hint)
        if where.is_dir():
            hint = f"give {option} a file's name" if where == path else f"move it away, or give {option} another place"
            return StorageError("this is a folder; a file is needed", place=Place(str(where)), hint=hint)
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and _has_no_inodes(where):
        hints[error.errno] = (
            f"the file system has no room for more files, whatever their size: remove some, then {again}"
        )
    hints |= dict.fromkeys(_TOO_MANY, MORE_FILES)
    hint = hints.get(error.errno or 0, f"give {option} another place")
    return StorageError(f"{doing}: {error.strerror or error}", place=Place(str(where)), hint=hint)


def says_storage(text: str) -> bool:
    """Return whether a program that failed names a disk, a quota or a right as its reason, and not what it wrote."""
    return _STORAGE_WORDS.search(text) is not None


def _has_no_inodes(path: Path) -> bool:
    for folder in (path, *path.parents):
        try:
            status = os.statvfs(folder)
        except OSError:
            continue
        # a file system that makes inodes as it goes says 0 of 0
        return status.f_files > 0 and status.f_favail == 0
    return False


# A system without more memory or threads for a program: one error, whichever call met it.

_SHORTAGE_WORDS = re.compile(
    r"memory allocation of \d+ bytes failed|[Cc]annot allocate memory|[Oo]ut of memory|os error 12\b|MemoryError\b"
    r"|failed to map segment|failed to spawn thread|ThreadPoolBuild|can't spawn worker thread|can't start new thread"
    r"|BlockingIOError: \[Errno 11\]|SystemError: .* without (?:setting an exception|exception set)"
)
"""What the C library's loader, Rust's allocator, uv and Python say, and Python that has no memory for a MemoryError.
Under a limit on memory a thread gets no stack, so what is said of threads may be a matter of memory."""


def shortage(program: str, output: str) -> ToolError | None:
    """Make the error for a program that says that the system gave it too little; None where it says something else."""
    if "Too many open files" in output:
        return ToolError(f"{program} reached the system's limit on open files", hint=MORE_FILES)
    return too_little(program) if _SHORTAGE_WORDS.search(output) else None


def refuse_shortage(program: str, error: OSError) -> None:
    """Raise ToolError for a program that couldn't be started since too many files are open here."""
    if error.errno in _TOO_MANY and (short := shortage(program, str(error.strerror))):
        raise short from None


def too_little(program: str) -> ToolError:
    """Make the error for a program that the system gave too little."""
    return ToolError(
        f"{program} ran out of memory or threads, or reached the system's limit on them",
        hint="give it more (ulimit -v, ulimit -u, the job's memory), or let uv take less: UV_CONCURRENT_INSTALLS=1",
    )
