"""Options, progress and errors of the commands that look packages up in databases and indexes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.base.texts import printable
from envspec.cli.console import say

if TYPE_CHECKING:
    from envspec.review.audit.model import Facts

offline = click.option("--offline", is_flag=True, help="Use no network: take earlier audits' answers, or --database.")
min_age = click.option(
    "--min-age",
    type=click.IntRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="Report releases younger than this.",
)
database = click.option(
    "--database",
    type=click.Path(path_type=Path, exists=True),
    help="Advisories in the OSV format instead of PyPI's: a zip, folder or file.",
)
skip_files = click.option(
    "--skip-files",
    is_flag=True,
    help="Skip the checks of files that need an index: another-file, yanked, young.",
)
max_age = click.option(
    "--max-age",
    type=click.IntRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="The greatest age of a downloaded database, or of an answer with --offline.",
)


def say_unread(facts: Facts) -> bool:
    """Report what couldn't be read, with hints; say whether there was anything."""
    for reason in (*facts.unread, *facts.unread_files):
        say(f"error: {printable(reason)}", style="red")
    if facts.unread:
        say("hint: give a downloaded OSV database (PyPI's all.zip) with --database")
    if facts.unread_files:
        say("hint: --skip-files skips the checks that need an index: another-file, yanked, young")
    return bool(facts.unread or facts.unread_files)
