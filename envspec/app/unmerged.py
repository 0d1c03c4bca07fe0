"""The files of a work tree that a merge left unmerged."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from pathlib import Path

from envspec.base.errors import EnvspecError
from envspec.base.plain_files import read_plain
from envspec.review.git.program import git_output, work_tree


def unmerged_files() -> frozenset[Path]:
    """Ask git which files of this work tree a merge left unmerged; none outside one, or without git."""
    top = work_tree(Path.cwd())
    if top is None:
        return frozenset()
    try:
        listing = git_output(["ls-files", "--unmerged", "-z", "--full-name"], top)
    except EnvspecError:
        return frozenset()  # no git
    return frozenset(top / line.partition("\t")[2] for line in listing.split("\0") if line)


def take_in_command(unmerged: Collection[Path], recipes: Path, *more: Path) -> str:
    """Return the command by which git takes the folders in which it left a file unmerged as they are now: a spec's
    recipes, their development containers and others. A folder in which a file has conflict markers is left out. Empty
    where none is left."""
    folders = (*more, recipes, recipes.parent.parent / ".devcontainer") if unmerged else ()
    of = {folder: [file for file in unmerged if file.is_relative_to(folder.resolve())] for folder in folders}
    ready = [folder for folder, files in of.items() if files and not any(map(_has_markers, files))]
    return shlex.join(["git", "add", "-A", *map(os.path.normpath, ready)]) if ready else ""


def _has_markers(path: Path) -> bool:
    return path.is_file() and not path.is_symlink() and b"\n<<<<<<< " in b"\n" + read_plain(path)
