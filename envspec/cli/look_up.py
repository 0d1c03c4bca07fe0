"""The options of the commands that look packages up in databases and indexes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

offline = click.option("--offline", is_flag=True, help="Use no network: take earlier audits' answers, or --database.")
database = click.option(
    "--database",
    type=click.Path(path_type=Path, exists=True),
    help="Advisories in the OSV format instead of PyPI's: a zip, folder or file.",
)
skip_files = click.option("--skip-files", is_flag=True, help="Don't look up yanked releases.")
max_age = click.option(
    "--max-age",
    type=click.IntRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="The greatest age of a downloaded database, or of an answer with --offline.",
)


def look_up(function: Callable[..., int]) -> Callable[..., int]:
    """Add these options to a command, which gets their values as `how`."""

    @functools.wraps(function)
    def with_how(
        *arguments: Any,
        database: Path | None,
        offline: bool,
        skip_files: bool,
        max_age: int,
        **rest: Any,
    ) -> int:
        from envspec.review.audit.learn import How

        how = How(database, offline, timedelta(days=max_age), not skip_files)
        return function(*arguments, how=how, **rest)

    for option in (max_age, skip_files, database, offline):
        option(with_how)
    return with_how
