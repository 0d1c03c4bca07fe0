"""A spec's file: its bytes, and the folder that it belongs to."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path as FilePath

from envspec.base.errors import EnvspecError, InputError, NotPlain, Place, SpecError, StorageError
from envspec.base.plain_files import read_plain
from envspec.base.texts import nearest

MAX_BYTES = 1 << 20
"""The largest spec, in bytes. Real ones have a few thousand; a larger file is something else, given by mistake."""

_SMALLEST = """write one; the smallest is
  [env]
  python = "3.12"
  [pip]
  dependencies = ["torch==2.9.*"]
  [targets.cpu]
  platform = "linux-64\""""
# What the user mistyped, rather than storage that failed.
_BAD_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


def read_bytes(path: str) -> bytes:
    """Read a spec file, at most `MAX_BYTES` of it. Raises SpecError for what can't be a spec, else StorageError."""
    if not path:
        raise SpecError("the spec's path is empty", hint="give a spec, such as specs/NAME.toml")
    try:
        data = read_plain(path, MAX_BYTES + 1)
    except NotPlain:
        raise SpecError("not a regular file", hint="give a spec, such as specs/NAME.toml", place=Place(path)) from None
    except InputError as error:
        raise SpecError(error.message, hint=error.hint, place=error.place) from None
    except IsADirectoryError:
        hint = f"give a spec in it, such as {path}/NAME.toml"
        raise SpecError("it's a folder, not a spec", hint=hint, place=Place(path)) from None
    except ValueError:
        raise SpecError(f"{path!r} can't be a file's name", hint="take the NUL character out") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) > MAX_BYTES:
        raise SpecError(
            "larger than 1 MiB, so it can't be a spec", hint="give a spec, such as specs/NAME.toml", place=Place(path)
        )
    return data


def _unreadable(path: str, error: OSError) -> EnvspecError:
    reason = (error.strerror or str(error)).lower()
    if error.errno not in _BAD_PATH:
        return StorageError(f"can't be read: {reason}", hint="check the file's permissions", place=Place(path))

    missing = FilePath(path)
    existing: dict[str, FilePath] = {}
    with suppress(OSError):
        for candidate in (*missing.parent.glob("*.toml"), *missing.parent.glob("specs/*.toml")):
            existing.setdefault(candidate.name, candidate)
            existing.setdefault(candidate.stem, candidate)
    meant = nearest(missing.name, existing)
    hint = f"did you mean {existing[meant]}?" if meant else _SMALLEST
    return SpecError(f"can't be read: {reason}", hint=hint, place=Place(path))


def project_root(spec: str | os.PathLike[str]) -> FilePath:
    """Give the folder that a spec belongs to: the one that contains `specs/`, or else the spec's own. Absolute."""
    folder = FilePath(spec).absolute().parent
    return folder.parent if folder.name == "specs" else folder
