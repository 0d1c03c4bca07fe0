"""Output places: which part of a path the user named, and which may come from a repository."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from envspec.base.open_folder import Location, locate
from envspec.base.storage import storage_error
from envspec.spec.document import project_root


def location(path: Path, specs: Iterable[str] = ()) -> Location:
    """Give a folder that the user named; each spec's project and the current folder may come from a repository."""
    return locate(path, map(project_root, specs))


def shown_path(path: Path) -> Path:
    """Show a path in a message: relative to the current folder if it's below it."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


def within_repository(lock: Path) -> PurePosixPath:
    """Give a lock's path from its repository's root, as SARIF viewers and GitHub's annotations expect
    it; outside a repository, from the current folder. No other folder of this machine shows.
    """
    path = Path(os.path.abspath(lock))
    roots = [folder for folder in path.parents if (folder / ".git").exists()]
    for root in (*roots[:1], Path.cwd()):
        if path.is_relative_to(root):
            return PurePosixPath(path.relative_to(root).as_posix())
    return PurePosixPath(path.parent.name, path.name)


@contextmanager
def open_output(path: Path, option: str, specs: Iterable[str] = ()) -> Iterator[BinaryIO]:
    """Open a file that is written whole or not at all; `option` gave its path. Raises NotPlain, StorageError."""
    from envspec.base import atomic

    try:
        with atomic.stage_file(location(path.parent, specs), path.name) as file:
            yield file
    except OSError as error:
        raise storage_error(error, path, option=option) from None


def write_text(path: Path, text: str, option: str = "-o", specs: Iterable[str] = ()) -> None:
    """Write a text file, whole or not at all."""
    with open_output(path, option, specs) as file:
        file.write(text.encode())
