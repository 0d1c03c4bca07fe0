"""Output places: which part of a path the user named, and which may come from a repository."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from envspec.base.errors import EnvspecError
from envspec.base.open_folder import Location, locate
from envspec.base.storage import storage_error
from envspec.review.git.program import git_output, work_tree
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


def unmerged_files() -> frozenset[Path]:
    """Ask git which files of this work tree a merge left unmerged; none outside one, or without git."""
    top = work_tree(Path.cwd())
    if top is None:
        return frozenset()
    try:
        told = git_output(["ls-files", "--unmerged", "-z", "--full-name"], top)
    except EnvspecError:
        return frozenset()  # no git
    return frozenset(top / line.partition("\t")[2] for line in told.split("\0") if line)


def taking_in(unmerged: Collection[Path], recipes: Path, *others: Path) -> str:
    """Give the command by which git takes a spec's recipes, their development containers and other folders as they are
    now, of these those in which it left a file unmerged: of one that a side deleted it asks no driver. Empty where
    there are none, and without a folder in which a file has conflict markers."""
    folders = (*others, recipes, recipes.parent.parent / ".devcontainer") if unmerged else ()
    of = {folder: [one for one in unmerged if one.is_relative_to(folder.resolve())] for folder in folders}
    ready = [folder for folder, found in of.items() if found and not any(map(_has_markers, found))]
    return shlex.join(["git", "add", "-A", *map(os.path.normpath, ready)]) if ready else ""


def _has_markers(path: Path) -> bool:
    return path.is_file() and b"\n<<<<<<< " in b"\n" + path.read_bytes()


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
