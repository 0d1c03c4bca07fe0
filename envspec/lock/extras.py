"""Requested extras that add nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envspec.base.errors import Place
from envspec.base.finding import Finding
from envspec.base.texts import nearest
from envspec.lock.graph import Edge, Graph
from envspec.lock.model import LockedTarget
from envspec.packages.requirement import head_of


def findings(target: LockedTarget, places: Mapping[str, Place]) -> Iterator[Finding]:
    """Yield a warning for each extra that adds nothing: one of a conda package, which has no extras, or one that a
    wheel's METADATA doesn't offer.

    `places` gives the place in the spec of each package. Packages whose METADATA wasn't read are skipped.
    """
    graph = Graph.of(target)
    for edge in dict.fromkeys(_edges(graph)):
        wanted = head_of(edge.requirement).extras if edge.kind == "pip" else frozenset()
        if not wanted:
            continue
        asker = edge.source.name if edge.source else "the spec"
        place = None if edge.source else places.get(edge.target.name)
        pin = graph.pins[edge.target]
        if pin.kind == "conda":
            yield _of_conda(f"{asker} asks for {edge.requirement}")
            continue
        offered = pin.extras if pin.extras is not None else wanted
        for extra in sorted(wanted - offered):
            yield _unknown(f"{asker} asks for {pin.name}[{extra}]", f"{pin.name} {pin.version}", extra, offered, place)


def _of_conda(asks: str) -> Finding:
    message = f"{asks}, but conda packages have no extras"
    return Finding("warning", "conda-extras", message, remedy="if you need the extra, add its packages to the spec")


def _unknown(asks: str, label: str, extra: str, offered: frozenset[str], place: Place | None) -> Finding:
    meant = nearest(extra, sorted(offered))
    listed = ", ".join(sorted(offered)[:12]) + (", …" if len(offered) > 12 else "")
    remedy = f"did you mean {meant}?" if meant else f"its extras: {listed}" if offered else "leave the extra out"
    return Finding("warning", "unknown-extra", f"{asks}, but {label} has no such extra", place, remedy)


def _edges(graph: Graph) -> Iterator[Edge]:
    yield from graph.roots
    for edges in graph.outgoing.values():
        yield from edges
