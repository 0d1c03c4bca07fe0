"""What the commands that look packages up in databases and indexes share: options, progress, complaints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.cli.console import say
from envspec.texts import printable

if TYPE_CHECKING:
    from envspec.audit.model import Facts

offline = click.option("--offline", is_flag=True, help="Ask nobody: take what earlier audits learned, or --database.")
database = click.option(
    "--database",
    type=click.Path(path_type=Path, exists=True),
    help="Advisories in the OSV format, a zip, folder or file, instead of PyPI's.",
)
skip_files = click.option(
    "--skip-files",
    is_flag=True,
    help="Do without what only an index can tell of files: another-file, yanked, young.",
)
max_age = click.option(
    "--max-age",
    type=click.IntRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="How old a downloaded database, or an answer taken with --offline, may be.",
)


def say_unread(facts: Facts) -> bool:
    """Say what couldn't be read, and what helps; whether there was anything."""
    for reason in (*facts.unread, *facts.unread_files):
        say(f"error: {printable(reason)}", style="red")
    if facts.unread:
        say("hint: not being able to look is no pass; --database takes a downloaded OSV database (all.zip of PyPI)")
    if facts.unread_files:
        say("hint: --skip-files does without what only an index can tell: another-file, yanked, young")
    return bool(facts.unread or facts.unread_files)
