"""The requirements between packages, on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Mapping

from envspec.facts.most_used import names
from envspec.lock.formats.foreign.side import Side
from envspec.lock.graph import Graph, Node
from envspec.lock.model import Lock, LockedTarget, Pin


class Relations:
    """The relations of two sides. `before` and `after` are their locks with the targets matched, nothing taken away."""

    def __init__(self, old: Side, new: Side, before: Lock, after: Lock) -> None:
        self.old, self.new = old, new
        self.before, self.after = before, after
        self._graphs: dict[tuple[bool, str], Graph | None] = {}
        self._pins: dict[tuple[bool, str], Mapping[tuple[str, str], Pin]] = {}
        self._origins: dict[str, Mapping[Node, str]] = {}

    def demand(self, kind: str, name: str, target: str, now: bool) -> tuple[bool | None, tuple[str, ...] | None]:
        """Return whether the spec asks for a package, and which packages require it: on the new side if `now`, else on
        the old one.

        Values are None where that side doesn't know.
        """
        side = self.new if now else self.old
        lock = self.after if now else self.before
        if (now, target) not in self._pins:
            locked = lock.target(target)
            self._pins[now, target] = {(pin.kind, pin.name): pin for pin in (locked.pins if locked else ())}
        pin = self._pins[now, target].get((kind, name))
        direct = pin.direct if pin and "direct" in side.knows else None
        graph = self.graph(now, target)
        if graph is None:
            return direct, None
        edges = graph.incoming.get(Node(kind, name), ())
        via = tuple(dict.fromkeys(edge.source.name for edge in edges if edge.source is not None))
        # a file that doesn't record direct requirements has roots that no package requires
        return direct, via if via or "direct" in side.knows else None

    def origin(self, name: str, target: str) -> str | None:
        """Name the nearest much used package of the new side that requires one of pip's, itself or by way of others."""
        if target not in self._origins:
            graph = self.graph(True, target)
            self._origins[target] = _origins(graph) if graph else {}
        return self._origins[target].get(Node("pip", name))

    def edges(self, kind: str, name: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the packages that one requires now and didn't before, and the reverse. Only for a package that
        stays."""
        graphs = self.graph(False, target), self.graph(True, target)
        node = Node(kind, name)
        if graphs[0] is None or graphs[1] is None or node not in graphs[0].pins or node not in graphs[1].pins:
            return (), ()
        before, after = ({edge.target.name for edge in graph.outgoing.get(node, ())} for graph in graphs if graph)
        return tuple(sorted(after - before)), tuple(sorted(before - after))

    def graph(self, now: bool, name: str) -> Graph | None:
        """Return a graph; None for a side without edges, and for one whose requirements can't be read."""
        key = (now, name)
        if key not in self._graphs:
            side, lock = (self.new, self.after) if now else (self.old, self.before)
            self._graphs[key] = _make_graph(lock.target(name)) if "edges" in side.knows else None
        return self._graphs[key]


def _origins(graph: Graph) -> dict[Node, str]:
    """Give for each package the nearest much used one that leads to it. Walked once down from those: a walk up from
    each package costs the square of a lock."""
    nearest: dict[Node, str] = {}
    known = names()
    waiting = sorted(node for node in graph.outgoing if node.name in known)
    for node in waiting:
        origin = node.name if node.name in known else nearest[node]
        for edge in graph.outgoing.get(node, ()):
            if edge.target not in nearest:
                nearest[edge.target] = origin
                if edge.target.name not in known:
                    waiting.append(edge.target)
    return nearest


def _make_graph(target: LockedTarget | None) -> Graph | None:
    if target is None or not target.inputs.platform:
        return None
    try:
        return Graph.of(target)
    except ValueError:
        return None
