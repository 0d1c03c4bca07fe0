"""`envspec facts`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone
from typing import Any

import click

from envspec.app.edition import edition_document
from envspec.base.texts import plural
from envspec.cli import options
from envspec.cli.console import out, warn
from envspec.cli.table import aligned

EPILOG = """\b
Examples:
  envspec facts
  envspec facts --json                       rows by their kind of proof as well
  ENVSPEC_FACTS=shipped envspec facts        without an installed envspec-facts
"""


@click.command(epilog=EPILOG)
@options.as_json
def command(as_json: bool) -> int:
    """Say which facts envspec knows GPUs, CUDA, drivers and torch by: version, age, where from, and how far each
    table reaches

    The facts ship with envspec. A newer `envspec-facts` beside it, a package of data alone, is taken instead. Beyond a
    table's reach envspec warns and doesn't refuse. The network isn't used.
    """
    from envspec.facts import edition, proof
    from envspec.facts.reach import reach

    found = edition.current()
    if found.note:
        warn(found.note)
    tables = [_table(name, until, *proof.counts(name)) for name, until in reach().items()]
    age = (datetime.now(timezone.utc).date() - date.fromisoformat(found.day)).days
    if as_json:
        options.print_json("facts", {**edition_document(), "age_days": age, "note": found.note, "tables": tables})
        return 0
    out(f"facts {found.version}, {plural(max(age, 0), 'day')} old, from {found.origin} ({found.folder})")
    out("\n".join(aligned([("TABLE", "ROWS", "REACHES TO", "PROOF"), *map(_line, tables)], heading=True)))
    return 0


def _table(name: str, until: str, rows: int, kinds: Mapping[str, int]) -> dict[str, Any]:
    return {"table": name, "rows": rows, "reaches_to": until, "proof": dict(kinds)}


def _line(table: Mapping[str, Any]) -> Sequence[str]:
    until = table["reaches_to"]
    kinds = ", ".join(f"{kind} {count}" for kind, count in table["proof"].items())
    return table["table"], f"{table['rows']:,}", until, kinds
