"""`envspec git-setup`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from envspec.app.git import set_up
from envspec.base import programs
from envspec.cli.console import say

EPILOG = """\b
Examples:
  envspec git-setup               this repository: its .git/config and its .gitattributes
  envspec git-setup --global      all your repositories
  envspec git-setup --undo

\b
After it: git diff, git log -p, git show show a lock as one line per package
  git merge, git rebase           merge a lock by package where lines don't merge; a conflict says what to run
"""


@click.command(epilog=EPILOG)
@click.option("--global", "for_user", is_flag=True, help="Set up git for all your repositories.")
@click.option("--undo", "take_out", is_flag=True, help="Remove what this command added.")
def command(for_user: bool, take_out: bool) -> None:
    """Teach git to show and to merge locks

    envspec writes drivers into git's configuration, which isn't shared: each developer runs this once in their clone.
    Commit the lines in .gitattributes; they do nothing in a clone without the drivers.
    """
    where = set_up(None if take_out else program(), for_user=for_user)
    if take_out:
        say(f"removed the drivers from git's configuration, and envspec's lines from {where}")
        return
    say(f"configured git to show and merge envspec.lock by package; {where} names the files")
    if not for_user:
        say("hint: commit .gitattributes; each developer runs `envspec git-setup` in their clone")


def program() -> tuple[str, ...]:
    """Give the command by which git calls this envspec from any folder."""
    started = Path(sys.argv[0])
    if started.name == "envspec" and started.is_file():
        return (str(started.absolute()),)
    return programs.ENVSPEC
