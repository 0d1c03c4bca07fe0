"""A file of another tool as text, TOML or YAML; what is wrong with it is told of the file."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.documents import Unreadable, read_toml, read_yaml
from envspec.base.errors import InputError, Place, StorageError
from envspec.review.diff.foreign.shape import Malformed


class malformed:
    """Turn Malformed, and the errors of URL and version parsers, into an InputError that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RecursionError):
            raise InputError("this is nested too deeply", place=Place(str(self.path))) from None
        if isinstance(error, Malformed | ValueError):
            raise InputError(str(error)[:500], place=Place(str(self.path), getattr(error, "line", 0))) from None


def text_of(path: Path, hint: str = "") -> str:
    """Read a file's text, its lines ended as on Linux. `hint` says which files are wanted.

    Raises InputError, StorageError.
    """
    place = Place(str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("there is no such file", place=place) from None
    except IsADirectoryError:
        raise InputError("this is a folder", place=place, hint="name the file in it") from None
    except UnicodeDecodeError:
        raise InputError("this is not UTF-8 text", place=place, hint=hint or None) from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError("there is no such file: its name is too long", place=place) from None
        raise StorageError(f"this can't be read: {error.strerror}", place=place) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def toml_of(text: str) -> Mapping[str, Any]:
    """Parse TOML. Raises Malformed."""
    try:
        return read_toml(text)
    except Unreadable as error:
        raise Malformed(f"this is not TOML: {error}", error.line) from None


def yaml_of(text: str) -> Mapping[str, Any]:
    """Parse YAML. Raises Malformed."""
    try:
        data = read_yaml(text)
    except Unreadable as error:
        raise Malformed(f"this is not YAML: {error}", error.line) from None
    if not isinstance(data, dict):
        raise Malformed("this is not a table of YAML")
    return data
