"""What git asks of locks, and of what is rendered from them: a merge, and a text to show."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from envspec.app.outputs import shown_path
from envspec.base.errors import LockError, StorageError
from envspec.lock.read import load, load_text, loads
from envspec.lock.write import dumps
from envspec.review.git import setup
from envspec.review.git.merge import by_line, mark_conflicts, merge
from envspec.review.git.merge_rendered import merge_requirements
from envspec.review.git.textconv import readable


def merge_lock(base: Path, ours: Path, theirs: Path) -> tuple[str, ...]:
    """Merge a lock by package into OURS. Gives what stands in the way, and OURS gets conflict markers then. Raises
    StorageError."""
    try:
        # git gives an empty file where the branches have no common lock
        before = load_text(base)
        result = merge(loads(before, "the common ancestor") if before.strip() else None, load(ours), load(theirs))
        merged, problems = result.lock, tuple(map(str, result.conflicts))
    except LockError as error:
        merged, problems = None, (f"a lock can't be read: {error.message}",)
    _write(ours, mark_conflicts(base, ours, theirs, Path.cwd()) if merged is None else dumps(merged))
    return problems


def merge_requirements_file(base: Path, ours: Path, theirs: Path) -> bool:
    """Merge a requirements.txt that was rendered from a lock; merge any other file as git itself would. Says whether
    OURS has no conflict. Raises StorageError."""
    texts = [file.read_bytes().decode(errors="surrogateescape") for file in (base, ours, theirs)]
    merged, conflicts = merge_requirements(*texts), False
    if merged is None:
        merged, conflicts = by_line(base, ours, theirs, Path.cwd())
    _write(ours, merged)
    return not conflicts


def shown_by_git(file: Path) -> str:
    """Give a lock in short lines, one per package; a file that isn't a lock this envspec can read as it is."""
    content = file.read_bytes()
    try:
        return readable(loads(content.decode(), str(file)))
    except (LockError, UnicodeDecodeError):
        return content.decode(errors="replace")


def set_up(program: Sequence[str] | None, *, for_user: bool) -> Path:
    """Have git show and merge locks by a program: in the repository around the current folder, or in all of a user's.
    None takes that out again. Gives the file of attributes. Raises InputError, ToolError, StorageError."""
    here = Path.cwd()
    scope = setup.user(here, os.environ) if for_user else setup.repository(here)
    if program is None:
        setup.undo(scope)
    else:
        setup.install(scope, program)
    return shown_path(scope.attributes)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
    except OSError as error:
        raise StorageError(f"the merged lock can't be written: {error.strerror}") from None
