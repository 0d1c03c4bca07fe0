"""The case that a rule judges, and the rule's finding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from envspec.lock.graph import Edge, Graph, Node
from envspec.lock.model import LockedTarget, Pin, SpecInputs


@dataclass(frozen=True)
class Flaw:
    """Something in a lock that can't be right.

    code      names the rule for machines (docs/json.md lists them)
    targets   where it holds
    package   the package that it is about, None where it is about a target as a whole
    sentence  for people, without the targets
    """

    code: str
    targets: tuple[str, ...]
    package: str | None
    sentence: str

    @property
    def message(self) -> str:
        return f"{', '.join(self.targets)}: {self.sentence}"


@dataclass(frozen=True)
class LockedCase:
    """One target, with the inputs that it is judged by: the spec's, or its own where no spec is at hand."""

    target: LockedTarget
    shared: SpecInputs

    @cached_property
    def graph(self) -> Graph:
        return Graph.of(self.target)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """Every requirement that holds in the target and has an answer."""
        return (*self.graph.roots, *(edge for edges in self.graph.outgoing.values() for edge in edges))

    def pins(self, kind: str) -> tuple[Pin, ...]:
        return self._pins.get(kind, ())

    @cached_property
    def _pins(self) -> dict[str, tuple[Pin, ...]]:
        kinds = {pin.kind for pin in self.target.pins}
        return {kind: tuple(pin for pin in self.target.pins if pin.kind == kind) for kind in kinds}

    def flaw(self, code: str, package: str | None, sentence: str) -> Flaw:
        return Flaw(code, (self.target.name,), package, sentence)


def asker(source: Node | None) -> str:
    return "the spec" if source is None else source.name


def merged(flaws: Iterable[Flaw]) -> tuple[Flaw, ...]:
    """Return each flaw once, with all targets that it holds for, in the order in which they came."""
    targets: dict[tuple[str, str | None, str], dict[str, None]] = {}
    for flaw in flaws:
        targets.setdefault((flaw.code, flaw.package, flaw.sentence), {}).update(dict.fromkeys(flaw.targets))
    return tuple(Flaw(code, tuple(names), package, said) for (code, package, said), names in targets.items())
