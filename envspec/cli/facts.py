"""`envspec facts`."""

from __future__ import annotations

import click

from envspec.app.edition import current_facts, edition_document
from envspec.base.texts import plural
from envspec.cli import options
from envspec.cli.table import align

EPILOG = """\b
Examples:
  envspec facts
  envspec facts --json                       rows by their kind of proof as well
  ENVSPEC_FACTS=shipped envspec facts        without an installed envspec-facts
"""


@click.command(epilog=EPILOG)
@options.as_json
def command() -> int:
    """Show the facts about GPUs, CUDA, drivers and torch: their age, origin and reach

    The facts ship with envspec. envspec takes a newer `envspec-facts`, a package of data alone, instead. Beyond a
    table's reach envspec warns and doesn't refuse. It uses no network.
    """
    edition, age, tables = current_facts()
    head = f"facts {edition.version}, {plural(max(age, 0), 'day')} old, from {edition.origin} ({edition.folder})"
    rows = [
        (
            table.table,
            f"{table.rows:,}",
            table.reaches_to,
            ", ".join(f"{kind} {count}" for kind, count in table.proof.items()),
        )
        for table in tables
    ]
    lines = align([("TABLE", "ROWS", "REACHES TO", "PROOF"), *rows], heading=True)
    document = {**edition_document(), "age_days": age, "note": edition.note, "tables": tables}
    options.answer("facts", document, [head, *lines])
    return 0
