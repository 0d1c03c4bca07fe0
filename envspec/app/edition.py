"""Which edition of the facts a command judged by."""

from __future__ import annotations

from envspec.app.observer import say, warn


def tell_edition() -> None:
    """Say it where the facts aren't those that ship with envspec, and warn of an `envspec-facts` that isn't used."""
    from envspec.facts.edition import DISTRIBUTION, current, installed

    if not installed():
        return
    found = current()
    if found.note:
        warn(found.note)
    if found.origin == DISTRIBUTION:
        say(f"note: facts {found.version}, from {DISTRIBUTION}", style="cyan")


def edition_document() -> dict[str, str]:
    """Name the edition, as documents do."""
    from envspec.facts.edition import current

    found = current()
    return {"version": found.version, "from": found.origin}
