"""The input of a judge's rule."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from envspec.base.finding import Finding, Severity
from envspec.lock.graph import Edge, Graph, Node
from envspec.lock.model import LockedTarget, Pin, SpecInputs


class LockedCase(Struct, frozen=True, dict=True):
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

    def flaw(self, code: str, package: str | None, message: str, severity: Severity = "error") -> Finding:
        """Make the finding of a flaw of the target: an error for a contradiction, a warning for a difference from
        today's facts."""
        return Finding(severity, code, message, targets=(self.target.name,), package=package)


def asker(source: Node | None) -> str:
    return "the spec" if source is None else source.name
