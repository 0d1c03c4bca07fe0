"""Changes that follow from another one: what is told under its cause."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from envspec.base.texts import few, plural
from envspec.lock.graph import Edge, Graph, Node
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, head_of
from envspec.review.diff.rows import Fact

_OF_EXTRA = re.compile(r"""\bextra == ["']([^"']+)["']""")


def lost_extras(old: Graph, new: Graph, overrides: Collection[str]) -> Iterator[Fact]:
    """Yield the extras that nobody asks for any more in a target, of packages that stay, and that take packages away
    with them: who lets go of each, and what goes. `overrides` are those of the new side."""
    for node in sorted(old.extras.keys() & new.pins.keys()):
        for extra in sorted(old.extras[node] - new.extras.get(node, frozenset())):
            edges = (edge for edge in old.outgoing.get(node, ()) if edge.target not in new.pins)
            gone = sorted({edge.target.name for edge in edges if extra in _OF_EXTRA.findall(edge.requirement)})
            if gone:
                whose = f"{node.name}'s extra {extra}"
                message = f"{_who(node, extra, old, new, overrides)} {whose}, so {_go(gone)}"
                yield Fact("medium", "extra-dropped", message, package=node.name)


def _who(node: Node, extra: str, old: Graph, new: Graph, overrides: Collection[str]) -> str:
    override = next((text for text in overrides if requirement_name(text) == node.name), None)
    if override is not None:
        return f"the override {override} takes away"
    if any(edge.target == node and _asks(edge, extra) for edge in old.roots):
        return "the spec no longer asks for"
    asking = [edge.source for edge in old.incoming.get(node, ()) if edge.source is not None and _asks(edge, extra)]
    names = [f"{one.name} {new.pins[one].version}" for one in asking if one in new.pins]
    return (
        f"{few(names)} no longer {'asks' if len(names) == 1 else 'ask'} for" if names else "nothing asks any more for"
    )


def _asks(edge: Edge, extra: str) -> bool:
    if edge.kind != "pip":
        return False
    return extra in {canonical_name(one) for one in head_of(edge.overridden or edge.requirement).extras}


def _go(names: list[str]) -> str:
    return f"{plural(len(names), 'package')} {'goes' if len(names) == 1 else 'go'}: {few(names)}"
