"""The edition of the facts that a command judged by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone

from msgspec import Struct

from envspec.app.observer import say, warn
from envspec.facts.edition import DISTRIBUTION, Edition, current, installed_folders


def tell_edition() -> None:
    """Say it where the facts aren't those that ship with envspec, and warn of an `envspec-facts` that isn't used."""
    if not installed_folders():
        return
    found = current()
    if found.note:
        warn(found.note)
    if found.origin == DISTRIBUTION:
        say(f"note: facts {found.version}, from {DISTRIBUTION}", style="cyan")


def edition_document() -> dict[str, str]:
    """Name the edition, as documents do."""
    found = current()
    return {"version": found.version, "from": found.origin}


class FactsTable(Struct, frozen=True):
    """A table, how far it reaches, and how many of its rows rest on each kind of proof."""

    table: str
    rows: int
    reaches_to: str
    proof: Mapping[str, int]


def current_facts() -> tuple[Edition, int, tuple[FactsTable, ...]]:
    """Give the edition, its age in days and its tables; warn of an `envspec-facts` that isn't used."""
    from envspec.facts.reach import counts, reach

    found = current()
    if found.note:
        warn(found.note)
    counted = [(name, until, *counts(name)) for name, until in reach().items()]
    tables = tuple(FactsTable(name, rows, until, dict(kinds)) for name, until, rows, kinds in counted)
    age = datetime.now(timezone.utc).date() - date.fromisoformat(found.day)
    return found, age.days, tables
