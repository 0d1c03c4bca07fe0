"""The facts that the changed terms of another tool's file give."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.texts import few
from envspec.lock.formats.foreign.side import Terms
from envspec.lock.formats.foreign.terms import GUARDS, HASHES
from envspec.lock.inputs import bare_address, normal_address
from envspec.review.diff.rows import Fact, Risk


def of_terms(old: Terms, new: Terms) -> Iterator[Fact]:
    """Yield what changed between the terms of two files of one format."""
    before, after = (_by_name(side) for side in (old, new))
    for name in sorted({*before, *after}):
        was, now = before.get(name, {}), after.get(name, {})
        came, went = ([now[key] for key in now.keys() - was.keys()], [was[key] for key in was.keys() - now.keys()])
        if came and was:
            moved = f"{', '.join(sorted(went or was.values()))} -> {', '.join(sorted(came))}"
            message = f"{name} is at another address: {moved}. Its files come from there now"
            yield Fact("high", "index-address-changed", message)
        elif came and name.startswith("--"):
            yield Fact("high", "index-added", f"{name} is new: files may come from {', '.join(sorted(came))}")
        elif went and name.startswith("--"):
            yield Fact("medium", "index-removed", f"{name} is gone: {', '.join(sorted(went))}")
    held, holds = dict(old.guards), dict(new.guards)
    for name in sorted({*held, *holds}):
        if name not in holds:
            yield Fact("medium", "options-changed", f"{name} {held[name]}".rstrip() + " is gone from the file")
        elif held.get(name) != holds[name]:
            added = name not in held
            # a later day is how time goes by
            routine = name == "exclude-newer" or (added and name in (*GUARDS, HASHES))
            risk: Risk = "low" if routine else "medium"
            change = f"{name} {holds[name]}".rstrip() + (" is new" if added else f" (was {held[name]})")
            yield Fact(risk, "options-changed", f"the file's options: {change}")
    for one in sorted({*new.loose} - {*old.loose}):
        yield Fact("medium", "options-changed", f"the file has {one} from now on, which checks less")
    for one in sorted({*old.loose} - {*new.loose}):
        yield Fact("low", "options-changed", f"the file no longer has {one}")
    # of hashes of which none stayed the package's row tells
    more = [name for name, was in old.hashes.items() if was and was < new.hashes.get(name, frozenset())]
    if more:
        message = f"{few(more)}: more files of the same version are accepted. See that the index publishes them"
        yield Fact("medium", "hashes-added", message)


def _by_name(terms: Terms) -> dict[str, dict[str, str]]:
    """Give the addresses of each name, as messages show them, by their one spelling."""
    found: dict[str, dict[str, str]] = {}
    for name, address in terms.addresses:
        found.setdefault(name, {})[normal_address(address)] = bare_address(address)
    return found
