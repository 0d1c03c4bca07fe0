"""`envspec git-merge`: what git calls to merge locks (see `envspec git-setup`)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import click

from envspec.base.texts import printable
from envspec.cli.console import say

EPILOG = """\b
Example:
  envspec git-merge BASE OURS THEIRS locks/demo/envspec.lock
"""

_FEW = 10
_File = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(epilog=EPILOG)
@click.argument("base", type=_File)
@click.argument("ours", type=_File)
@click.argument("theirs", type=_File)
@click.argument("path")
def command(base: Path, ours: Path, theirs: Path, path: str) -> int:
    """Merge THEIRS into OURS: as git does, or by package where git leaves a conflict. PATH is its name in the
    repository.

    If both sides changed a package in different ways, envspec leaves git's conflict markers in OURS and ends with
    exit code 1. `envspec lock` then merges both sides, with the newer of each, as far as the spec allows it.
    """
    from envspec.app.git import merge_lock, spec_of

    folder = PurePosixPath(printable(path)).parent
    problems = merge_lock(base, ours, theirs)
    again = f"envspec lock {spec_of(folder)}"
    if not problems:
        say(f"hint: run `{again}` to verify {printable(path)} and to update the files beside it")
        return 0
    say(f"{printable(path)}: both sides changed it", style="red")
    for problem in problems[:_FEW]:
        say(f"  {printable(problem)}")
    if len(problems) > _FEW:
        say(f"  and {len(problems) - _FEW} more")
    say(f"hint: after merging the spec: {again} && git add -A {folder}")
    return 1
