"""The edges of sources whose dependencies the spec states: its word, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts.corrections import corrections
from envspec.lock.graph import Node
from envspec.lock.rules.case import LockedCase
from envspec.packages.edges import Markers
from envspec.packages.requirement import published_requirement
from envspec.packages.stated import find_metadata


def wrong_edges(case: LockedCase) -> Iterator[Finding]:
    """Yield the sources whose edges aren't those that the spec states of them."""
    metadata = case.target.inputs.metadata
    if not metadata:
        return
    markers = Markers(case.target.inputs.platform, case.target.inputs.full_python)
    for pin in case.pins("pip"):
        stated = None if pin.is_wheel else find_metadata(metadata, pin.name, pin.version)
        if stated is None:
            continue
        extras = case.graph.extras.get(Node("pip", pin.name), frozenset())
        right = {str(published_requirement(line)) for line in stated.dependencies if markers.hold(line, extras)}
        added = set(corrections().on(markers).missing_requirements(pin.name, pin.version, stated.dependencies))
        edges = set(pin.dependencies)
        if not right <= edges <= right | added:
            said = ", ".join(sorted(right)) or "nothing"
            found = ", ".join(pin.dependencies) or "nothing"
            yield case.flaw(
                "wrong-dependencies", pin.name, f"the spec states that {pin.name} requires {said}, not {found}"
            )
