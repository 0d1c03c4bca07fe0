"""Changes that follow from another one, and are reported under their cause."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.texts import few, plural
from envspec.facts.corrections import Corrections
from envspec.facts.cuda_stack import TORCH, is_toolkit
from envspec.lock.graph import Edge, Graph, Node
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.packages.edges import Markers
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, head_of, parse_requirement
from envspec.review.diff.model import PinChange
from envspec.review.diff.rows import RISKS, Fact, Move, Row, highest

_OF_EXTRA = re.compile(r"""\bextra == ["']([^"']+)["']""")


class Reason(Struct, frozen=True):
    """The reason why a package went back: in words, and the package whose own change brought it, None where none did.

    `by_spec`: the reason is the spec itself; `correction` names the correction of envspec's that is the reason.
    """

    text: str
    package: str | None = None
    by_spec: bool = False
    correction: str | None = None


def reason_of_step_back(old: Pin, before: LockedTarget, after: LockedTarget, corrections: Corrections) -> Reason | None:
    """Find the first reason why a package of pip isn't in its old version any more: a requirement of the spec, of a
    package or of a correction on it, or a requirement of the old version itself on another package."""
    was = {pin.name: pin.version for pin in before.pins}
    moved = {pin.name for pin in after.pins if was.get(pin.name) != pin.version}
    pins = [pin for pin in after.pins if pin.kind == "pip"]
    markers = Markers(after.inputs.platform, after.inputs.full_python)
    for line in (*after.inputs.requirements, *after.inputs.constraints):
        if (bound := _refuses(line, old)) is not None:
            return Reason(f"the spec asks for {bound}", by_spec=True)
    for pin in pins:
        for line in pin.dependencies:
            if (bound := _refuses(line, old)) is not None:
                return Reason(f"{pin.name} {pin.version} requires {bound}", _if_in(moved, pin.name))
    for pin in pins:
        for row in corrections.of(pin.name, pin.version):
            if (
                row.kind != "extra"
                and _holds(markers, row.requirement)
                and (bound := _refuses(row.requirement, old)) is not None
            ):
                text = f"{pin.name} {pin.version} needs {bound}, says envspec's correction {row.name}: {row.reason}"
                return Reason(text, _if_in(moved, pin.name), correction=row.name)
    for line in old.dependencies:
        for pin in pins:
            if (bound := _refuses(line, pin)) is not None and pin.name in moved and _holds(markers, line):
                return Reason(
                    f"{old.name} {old.version} requires {bound}, and {pin.name} is {pin.version} now", pin.name
                )
    return None


def _if_in(moved: Collection[str], name: str) -> str | None:
    return name if name in moved else None


def _refuses(line: str, pin: Pin) -> str | None:
    """Return the bound of a requirement that is about a package and doesn't admit its version."""
    if requirement_name(line) != pin.name:
        return None
    requirement = parse_requirement(line)
    return (
        None if requirement.specifier.contains(pin.version, prereleases=True) else f"{pin.name}{requirement.specifier}"
    )


def _holds(markers: Markers, line: str) -> bool:
    try:
        return markers.hold(line)
    except ValueError:
        return True


_FOLLOWS = frozenset({"downgrade", "size-grew", "major-jump", "zero-minor-jump", "epoch-jump"})


def with_torch(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Lower the risk of moves that follow from torch's own, of libraries that torch pins: the rows of torch and its
    CUDA have the risk."""
    return (replace(fact, risk="low") if fact.code in _FOLLOWS else fact for fact in facts)


def goes_with_torch(change: PinChange, before: Lock, after: Lock) -> str | None:
    """Name the torch that a library of CUDA's, or triton, moved with in all targets of a change: torch moved too, and
    admits it. None for one that moved by itself."""
    new = change.new
    if new is None or change.old is None or new.direct or not (is_toolkit(new.name) or new.name == "triton"):
        return None
    releases: dict[str, None] = {}
    for name in change.targets:
        was, now = (_torch_of(lock.target(name)) for lock in (before, after))
        if was is None or now is None or (was.version, was.build, was.index) == (now.version, now.build, now.index):
            return None
        if any(_refuses(line, new) for line in now.dependencies):
            return None
        releases[f"{now.name} {now.version}"] = None
    # of several builds, what they share
    return next(iter(releases)).partition("+")[0] if len(releases) > 1 else next(iter(releases), None)


def _torch_of(target: LockedTarget | None) -> Pin | None:
    return next((pin for pin in (target.pins if target else ()) if pin.name in TORCH), None)


def with_what_follows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Add to each package the packages that go back because of it: the cause has their risk."""
    rows = tuple(rows)
    pulled: dict[str, list[tuple[Row, Move]]] = {}
    for row in rows:
        for move in row.moves:
            for part in move.exact:
                if part.pulled_by is not None:
                    pulled.setdefault(part.pulled_by[0], []).append((row, part))
    return tuple(_pulling(row, pulled[row.name]) if row.name in pulled and row.moves else row for row in rows)


def _pulling(row: Row, pulled: list[tuple[Row, Move]]) -> Row:
    facts: dict[Fact, None] = {}
    for other, move in pulled:
        versions = f"{move.old.version} -> {move.new.version}" if move.old and move.new else ""
        correction = move.pulled_by[1] if move.pulled_by else None
        message = f"takes {other.name} back: {versions}"
        if correction is not None:
            message += f", by envspec's correction {correction}"
            facts[Fact("medium", "pulls-back", message, move.targets)] = None
        else:
            facts[Fact("high", "pulls-back", message, move.targets)] = None
    first, *rest = row.moves
    more = tuple(sorted((*facts, *first.facts), key=lambda fact: RISKS.index(fact.risk)))
    # a document lists the exact changes
    parts = tuple(replace(part, facts=(*facts, *part.facts)) for part in first.parts)
    moves = (replace(first, facts=more, parts=parts), *rest)
    return replace(row, moves=moves, risk=highest((row.risk, *(fact.risk for fact in facts))))


def lost_extras(old: Graph, new: Graph, overrides: Collection[str]) -> Iterator[Fact]:
    """Yield the extras of staying packages that no package asks for any more in a target, and that take packages away
    with them: the former requirer of each, and the packages that go. `overrides` are those of the new side."""
    for node in sorted(old.extras.keys() & new.pins.keys()):
        for extra in sorted(old.extras[node] - new.extras.get(node, frozenset())):
            edges = (edge for edge in old.outgoing.get(node, ()) if edge.target not in new.pins)
            gone = _find_orphans((e.target for e in edges if extra in _OF_EXTRA.findall(e.requirement)), old, new)
            if gone:
                whose = f"the extra {extra} of {node.name}"
                message = f"{_who(node, extra, old, new, overrides)} {whose}, so {_go(gone)}"
                yield Fact("medium", "extra-dropped", message, package=node.name)


def _find_orphans(nodes: Iterable[Node], old: Graph, new: Graph) -> list[str]:
    """Name packages that went, and those that they required and that went with them."""
    waiting, orphans = list(nodes), set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in orphans:
            orphans.add(node)
            waiting += [edge.target for edge in old.outgoing.get(node, ()) if edge.target not in new.pins]
    return sorted(node.name for node in orphans)


def _who(node: Node, extra: str, old: Graph, new: Graph, overrides: Collection[str]) -> str:
    override = next((text for text in overrides if requirement_name(text) == node.name), None)
    if override is not None:
        return f"the override {override} takes away"
    if any(edge.target == node and _asks(edge, extra) for edge in old.roots):
        return "the spec no longer asks for"
    asking = [edge.source for edge in old.incoming.get(node, ()) if edge.source is not None and _asks(edge, extra)]
    names = [f"{parent.name} {new.pins[parent].version}" for parent in asking if parent in new.pins]
    return (
        f"{few(names)} no longer {'asks' if len(names) == 1 else 'ask'} for" if names else "nothing asks any more for"
    )


def _asks(edge: Edge, extra: str) -> bool:
    if edge.kind != "pip":
        return False
    return extra in {canonical_name(requested) for requested in head_of(edge.overridden or edge.requirement).extras}


def _go(names: list[str]) -> str:
    return f"{plural(len(names), 'package')} {'goes' if len(names) == 1 else 'go'}: {few(names)}"
