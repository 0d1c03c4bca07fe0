"""`envspec git-textconv`: what git calls to show a lock (see `envspec git-setup`)."""

from __future__ import annotations

from pathlib import Path

import click

from envspec.cli.console import out

EPILOG = """\b
Example:
  envspec git-textconv locks/demo/envspec.lock
"""


@click.command(epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def command(file: Path) -> None:
    """Print a lock as git shows it: short lines, one per package

    A file that isn't a lock this envspec can read is printed unchanged, because git shows old and broken locks too.
    """
    from envspec.app.git import text_for_git

    out(text_for_git(file), newline=False)
