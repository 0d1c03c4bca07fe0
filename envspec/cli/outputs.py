"""Where commands write: which part of a path is the user's own word, and which may come from a repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from envspec.open_folder import Location, located
from envspec.storage import storage_error


def project_of(spec: Path) -> Path:
    """The folder of the project that a spec belongs to: the one that `specs/` is in, or else the spec's own."""
    folder = spec.absolute().parent
    return folder.parent if folder.name == "specs" else folder


def location(path: Path, specs: Iterable[str] = ()) -> Location:
    """A folder that was named: the project of each spec may have come with a repository, as may what is below here."""
    return located(path, (project_of(Path(spec)) for spec in specs))


def shown_path(path: Path) -> Path:
    """A path as messages show it: relative to here where it is below here."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


@contextmanager
def written(path: Path, option: str, specs: Iterable[str] = ()) -> Iterator[BinaryIO]:
    """A file to write to, whole or not at all, whose path `option` gave. Raises NotPlain, StorageError."""
    from envspec import atomic

    try:
        with atomic.staged(location(path.parent, specs), path.name) as file:
            yield file
    except OSError as error:
        raise storage_error(error, path, option=option) from None


def write_text(path: Path, text: str, option: str = "-o", specs: Iterable[str] = ()) -> None:
    """The same for a text."""
    with written(path, option, specs) as file:
        file.write(text.encode())
