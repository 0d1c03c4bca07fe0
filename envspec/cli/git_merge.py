"""`envspec git-merge`: what git calls to merge locks and what is rendered from them (see `envspec git-setup`)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import click

from envspec.base.texts import printable
from envspec.cli.console import say

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
    from envspec.app.git import merge_lock, merge_requirements_file

    where = printable(path)
    if PurePosixPath(path).name != LOCK_NAME:
        if merge_requirements_file(base, ours, theirs):
            return 0
        say(f"{where}: can't be merged")
        say(f"hint: after merging the lock: envspec lock {_spec_of(str(PurePosixPath(path).parent))}")
        return 1
    problems = merge_lock(base, ours, theirs)
    if not problems:
        say(f"{where}: merged by package")
        say(f"hint: run `envspec lock {_spec_of(path)}` to verify the lock and to update the files beside it")
        return 0
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


def _spec_of(path: str) -> str:
    return f"specs/{printable(PurePosixPath(path).parent.name)}.toml"
