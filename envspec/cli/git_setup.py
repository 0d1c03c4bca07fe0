"""`envspec git-setup`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from envspec.cli.console import say
from envspec.cli.outputs import shown_path

EPILOG = """\b
Examples:
  envspec git-setup               this repository: its .git/config and its .gitattributes
  envspec git-setup --global      all repositories of yours
  envspec git-setup --undo

\b
After it:
  git diff, git log -p, git show  show a lock one line a package
  git merge, git rebase           merge locks by package; what only a solver can judge is a conflict, and says so
"""


@click.command(epilog=EPILOG)
@click.option("--global", "for_user", is_flag=True, help="Set up git for all repositories of yours.")
@click.option("--undo", "take_out", is_flag=True, help="Take out what this command put in.")
def command(for_user: bool, take_out: bool) -> None:
    """Teach git to show and to merge locks.

    Writes two drivers into git's configuration, which isn't shared: everybody who wants them runs this once in their
    clone. The lines in .gitattributes are to be committed; they harm nobody who hasn't.
    """
    from envspec.git import setup

    here = Path.cwd()
    scope = setup.user(here, os.environ) if for_user else setup.repository(here)
    where = shown_path(scope.attributes)
    if take_out:
        setup.undo(scope)
        say(f"took the drivers out of git's configuration, and our lines out of {where}")
        return
    setup.install(scope, program())
    say(f"configured git to show and merge envspec.lock by package; {where} names the files")
    if not for_user:
        say("hint: commit .gitattributes; everybody else runs `envspec git-setup` in their clone")


def program() -> tuple[str, ...]:
    """How git calls this very envspec, from wherever it's called."""
    started = Path(sys.argv[0])
    if started.name == "envspec" and started.is_file():
        return (str(started.absolute()),)
    return (sys.executable, "-m", "envspec")
