"""Several files of one folder replaced together: after a crash at any moment, either all are new or none is.

Everything goes through a folder `.envspec-staging` in the folder itself, so on the same filesystem:

1. the new files, and the old ones they replace, are laid into it, with a journal of what to do, and synced;
2. it's renamed to `.envspec-commit`. That is the moment at which the files are new: whoever reads through `pending`
   sees them, wherever the crash comes;
3. its files are put into place, and it goes.

A staging folder that a crash left is dropped, and a commit is finished, by the next writer (`recover`). The caller
holds the folder's lock meanwhile. Files are replaced one by one, and nothing else in the folder is touched: the folder
itself stays, with its owner, its rights, and the shells that stand in it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

STAGING = ".envspec-staging"
COMMIT = ".envspec-commit"

_PATH = re.compile(r"(?:[a-z0-9][A-Za-z0-9._-]*/)?[a-z0-9][A-Za-z0-9._-]*")


def replace_files(folder: Path, files: Mapping[str, bytes], removed: Collection[str]) -> None:
    """Give the paths `files` (relative, with `/`) their bytes and remove the paths `removed`, all or none.

    Raises OSError, with every old file in place again.
    """
    staging, commit = folder / STAGING, folder / COMMIT
    made: list[Path] = []
    try:
        # Before the commit, for a folder that can't be made must fail while it's harmless.
        for parent in sorted({(folder / path).parent for path in files}):
            if not parent.is_dir():
                parent.mkdir()
                made.append(parent)
        _stage(folder, staging, files, removed)
        staging.rename(commit)
        _sync_folder(folder)
        _apply(folder, commit)
    except BaseException:
        if commit.exists():
            _undo(folder, commit)
            commit.rename(staging)
        shutil.rmtree(staging, ignore_errors=True)
        for parent in reversed(made):
            with suppress(OSError):
                parent.rmdir()
        raise


def recover(folder: Path) -> None:
    """Finish a commit and drop a staging folder that a writer left when it was killed. Raises OSError."""
    staging, commit = folder / STAGING, folder / COMMIT
    if staging.exists():
        shutil.rmtree(staging)
    if commit.exists():
        _apply(folder, commit)


def pending(folder: Path) -> tuple[dict[str, Path], frozenset[str]]:
    """What an unfinished commit holds: where each of its files is now, and the paths that it removes."""
    commit = folder / COMMIT
    try:
        journal = _journal(commit)
    except (FileNotFoundError, NotADirectoryError):
        return {}, frozenset()
    return {path: commit / "new" / path for path in journal["files"]}, frozenset(journal["removed"])


def _journal(stage: Path) -> dict[str, list[str]]:
    """The paths to replace ("files") and to remove ("removed"). Raises OSError when envspec can't have written it."""
    path = stage / "journal.json"
    try:
        journal: dict[str, list[str]] = json.loads(path.read_bytes())
        if all(_PATH.fullmatch(entry) for key in ("files", "removed") for entry in journal[key]):
            return journal
    except (ValueError, KeyError, TypeError):
        pass
    # A repository can bring such a folder along, and with it paths that lead anywhere.
    raise OSError(errno.EINVAL, "this is not a journal of envspec; remove its folder", str(path))


def _stage(folder: Path, staging: Path, files: Mapping[str, bytes], removed: Collection[str]) -> None:
    staging.mkdir()
    # What a crash leaves must not turn up in `git status`.
    _write(staging / ".gitignore", b"*\n")
    for path, content in files.items():
        _write(_parents(staging / "new" / path), content)
    for path in (*files, *removed):
        if (folder / path).exists():
            _keep(folder / path, _parents(staging / "old" / path))
    journal = {"files": list(files), "removed": sorted(removed)}
    _write(staging / "journal.json", json.dumps(journal).encode())
    for parent in _folders(staging):
        _sync_folder(parent)


def _apply(folder: Path, commit: Path) -> None:
    """Finish a commit, from whatever point it got to: doing a step twice does no harm."""
    journal = _journal(commit)
    following = commit / "next"
    for path in journal["files"]:
        # The staged file stays: until the commit is gone, all of it must be there to read and to do again.
        following.unlink(missing_ok=True)
        _keep(commit / "new" / path, following)
        following.replace(_parents(folder / path))
    for path in journal["removed"]:
        (folder / path).unlink(missing_ok=True)
    for parent in {(folder / path).parent for path in (*journal["files"], *journal["removed"])}:
        _sync_folder(parent)
        if parent != folder:
            # A target's folder goes with its last file. What the user put there keeps it.
            with suppress(OSError):
                parent.rmdir()
    _discard(folder, commit)


def _discard(folder: Path, commit: Path) -> None:
    """Remove a finished commit. Renamed first, lest a crash half-way leaves one without its journal."""
    staging = folder / STAGING
    commit.rename(staging)
    shutil.rmtree(staging, ignore_errors=True)


def _undo(folder: Path, commit: Path) -> None:
    journal = _journal(commit)
    for path in (*journal["files"], *journal["removed"]):
        old = commit / "old" / path
        if old.exists():
            old.replace(_parents(folder / path))
        else:
            (folder / path).unlink(missing_ok=True)


def _keep(source: Path, copy: Path) -> None:
    """A second name for a file, or a copy where the filesystem has no hard links."""
    try:
        copy.hardlink_to(source)
    except OSError:
        shutil.copy2(source, copy)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _parents(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _folders(top: Path) -> Iterator[Path]:
    yield top
    for entry in top.iterdir():
        if entry.is_dir():
            yield from _folders(entry)


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder durable. Not every system can, and then there is nothing better."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
