"""The edition of the facts that a command judged by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone

from msgspec import Struct

from envspec.app.observer import warn
from envspec.base.finding import Finding, note, warning
from envspec.facts.edition import DISTRIBUTION, Edition, current, installed_folders


def edition_findings() -> tuple[Finding, ...]:
    """Name the facts' edition where it isn't the one that ships with envspec; warn of an `envspec-facts` that isn't
    used."""
    if not installed_folders():
        return ()
    edition = current()
    unused = [warning(edition.note)] if edition.note else []
    return (
        *unused,
        *([note(f"facts {edition.version}, from {DISTRIBUTION}")] if edition.origin == DISTRIBUTION else []),
    )


def edition_document() -> dict[str, str]:
    """Name the edition, as documents do."""
    edition = current()
    return {"version": edition.version, "from": edition.origin}


class FactsTable(Struct, frozen=True):
    """A table, how far it reaches, and how many of its rows rest on each kind of proof."""

    table: str
    rows: int
    reaches_to: str
    proof: Mapping[str, int]


def current_facts() -> tuple[Edition, int, tuple[FactsTable, ...]]:
    """Give the edition, its age in days and its tables; warn of an `envspec-facts` that isn't used."""
    from envspec.facts.reach import counts, reach

    edition = current()
    if edition.note:
        warn(edition.note)
    counted = [(name, until, *counts(name)) for name, until in reach().items()]
    tables = tuple(FactsTable(name, rows, until, dict(kinds)) for name, until, rows, kinds in counted)
    age = datetime.now(timezone.utc).date() - date.fromisoformat(edition.day)
    return edition, age.days, tables
