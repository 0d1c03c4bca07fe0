"""Edits of a spec in place that keep its comments and its order."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from envspec.atomic import write_file
from envspec.errors import Place, StorageError
from envspec.spec.document import read_bytes


def allow_source(path: str, names: Iterable[str]) -> None:
    """Add names to `[pip] allow-source` of the spec at `path`, which must be one that parses.

    Raises StorageError when it can't be written.
    """
    import tomlkit

    document = tomlkit.parse(read_bytes(path).decode("utf-8"))
    pip = document.setdefault("pip", tomlkit.table())
    listed = pip.setdefault("allow-source", tomlkit.array())
    for name in names:
        if name not in listed:
            listed.append(name)
    try:
        write_file(Path(path), tomlkit.dumps(document))
    except OSError as error:
        raise StorageError(
            f"it can't be written: {error.strerror}", hint="add the line yourself, or free the file", place=Place(path)
        ) from None
