"""The system's errors about files in envspec's words: what is wrong, and what to do."""

from __future__ import annotations

import errno
from pathlib import Path

from envspec.errors import Place, StorageError

_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR)


def storage_error(
    error: OSError, path: Path, *, option: str, again: str = "run again", doing: str = "can't be written"
) -> StorageError:
    """Make the StorageError for an error at `path`, or at the error's own path.

    `option` is the one that gives files another place ("-o"), `again` what to do once there is room.
    """
    hints = {
        errno.ENOSPC: f"free some space, then {again}",
        errno.EDQUOT: f"your quota is used up: remove some files, then {again}",
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
        for one in (where, path, *path.parents):
            if one.is_file():
                hint = f"move it away, or give {option} another place"
                return StorageError("this is a file; a folder is needed", place=Place(str(one)), hint=hint)
        if where.is_dir():
            hint = f"give {option} a file's name" if where == path else f"move it away, or give {option} another place"
            return StorageError("this is a folder; a file is needed", place=Place(str(where)), hint=hint)
    hint = hints.get(error.errno or 0, f"give {option} another place")
    return StorageError(f"{doing}: {error.strerror or error}", place=Place(str(where)), hint=hint)
