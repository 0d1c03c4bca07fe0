"""`envspec git-unreviewed`: what CI's jobs call for the locks that no review of a spec shows (`action.yml`)."""

from __future__ import annotations

from pathlib import Path

import click

from envspec.app.git import changed_places, unreviewed_locks
from envspec.base.plain_files import read_operand
from envspec.base.texts import plural
from envspec.cli.console import out

EPILOG = """\b
Example:
  envspec git-unreviewed --from origin/main specs/*.toml
"""


_MOST = 16 << 20


@click.command(epilog=EPILOG)
@click.argument("specs", nargs=-1, metavar="SPEC...")
@click.option("--from", "base", metavar="REV", required=True, help="The commit to compare with.")
@click.option(
    "--reviewed",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The paths of locks that reviews have shown, each with a NUL behind it.",
)
@click.option("--beside", is_flag=True, help="List other changed files that envspec reads for the specs.")
def command(specs: tuple[str, ...], base: str, reviewed: Path | None, beside: bool) -> None:
    """List the changed locks that no review of these specs shows, as a list in Markdown

    The list includes locks removed with their specs, and locks left without a spec, which pip still reads.
    """
    if beside:
        for place, count in changed_places(base, specs):
            out(f"- `{_name(place)}`: {plural(count, 'file')}")
        return
    shown = read_operand(reviewed, _MOST).decode("utf-8", "surrogateescape").split("\0") if reviewed else []
    for lock, what in unreviewed_locks(base, specs, list(filter(None, shown))):
        out(f"- `{_name(lock)}` {what}")


def _name(path: str) -> str:
    return "".join(char if char.isprintable() and char != "`" else "_" for char in path)
