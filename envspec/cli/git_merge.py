"""`envspec git-merge`: what git calls to merge locks and what is rendered from them (see `envspec git-setup`)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import click

from envspec.base.errors import LockError, StorageError
from envspec.base.texts import printable
from envspec.cli.console import say
from envspec.lock.model import Lock

EPILOG = """\b
Example:
  envspec git-merge BASE OURS THEIRS locks/demo/envspec.lock
"""

LOCK_NAME = "envspec.lock"
_FEW = 10
_File = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(epilog=EPILOG)
@click.argument("base", type=_File)
@click.argument("ours", type=_File)
@click.argument("theirs", type=_File)
@click.argument("path")
def command(base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge THEIRS into OURS, by package: a lock, or a requirements.txt beside one. PATH is its name in the repository.

    envspec reports a conflict, leaves conflict markers in OURS and ends with exit code 1. git then calls it a conflict
    too, and no command of envspec takes the file for a lock.
    """
    if PurePosixPath(path).name != LOCK_NAME:
        return _merge_rendered(base, ours, theirs, path)
    return _merge_lock(base, ours, theirs, path)


def _merge_lock(base: Path, ours: Path, theirs: Path, path: str) -> int:
    from envspec.lock.write import dumps
    from envspec.review.git.conflicted import conflicted

    where = printable(path)
    merged, problems = _merge(base, ours, theirs)
    if merged is not None:
        _write(ours, dumps(merged))
        say(f"{where}: merged by package")
        say(f"hint: run `envspec lock {_spec_of(path)}` to verify the lock and to update the files beside it")
        return 0
    _write(ours, conflicted(base, ours, theirs, Path.cwd()))
    say(f"{where}: can't be merged by package; lock again", style="red")
    for problem in problems[:_FEW]:
        say(f"  {printable(problem)}")
    if len(problems) > _FEW:
        say(f"  and {len(problems) - _FEW} more")
    say(
        f"hint: after merging the spec: git checkout --ours -- {where} && envspec lock {_spec_of(path)}"
        f" && git add {PurePosixPath(where).parent}"
    )
    return 1


def _merge_rendered(base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge a requirements.txt that was rendered from a lock; merge any other file as git itself would."""
    from envspec.review.git.conflicted import by_line
    from envspec.review.git.merge_rendered import merge_requirements

    texts = [file.read_bytes().decode(errors="surrogateescape") for file in (base, ours, theirs)]
    merged = merge_requirements(*texts)
    if merged is not None:
        _write(ours, merged)
        return 0
    text, conflicts = by_line(base, ours, theirs, Path.cwd())
    _write(ours, text)
    if conflicts:
        say(f"{printable(path)}: can't be merged")
        say(f"hint: after merging the lock: envspec lock {_spec_of(str(PurePosixPath(path).parent))}")
    return 1 if conflicts else 0


def _merge(base: Path, ours: Path, theirs: Path) -> tuple[Lock | None, list[str]]:
    """Give the merged lock, or the reasons why there is none."""
    from envspec.lock.read import load, load_text, loads
    from envspec.review.git.merge import merge

    try:
        # git gives an empty file where the branches have no common lock
        before = load_text(base)
        result = merge(loads(before, "the common ancestor") if before.strip() else None, load(ours), load(theirs))
    except LockError as error:
        return None, [f"a lock can't be read: {error.message}"]
    return result.lock, [str(conflict) for conflict in result.conflicts]


def _spec_of(path: str) -> str:
    return f"specs/{printable(PurePosixPath(path).parent.name)}.toml"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
    except OSError as error:
        raise StorageError(f"the merged lock can't be written: {error.strerror}") from None
