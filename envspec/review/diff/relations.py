"""Which packages require which, from the dependency graphs; each graph is built when it is first needed."""

from __future__ import annotations

from envspec.lock.graph import Graph, Node
from envspec.lock.model import Lock, LockedTarget
from envspec.review.diff.side import Side


class Relations:
    """The relations of two sides. `before` and `after` are their locks with the targets matched, nothing taken away."""

    def __init__(self, old: Side, new: Side, before: Lock, after: Lock) -> None:
        self.old, self.new = old, new
        self.before, self.after = before, after
        self._graphs: dict[tuple[bool, str], Graph | None] = {}

    def asked(self, kind: str, name: str, target: str, now: bool) -> tuple[bool | None, tuple[str, ...] | None]:
        """Return whether the spec asks for a package, and which packages require it: on the new side if `now`, else on
        the old one.

        Values are None where that side doesn't know.
        """
        side = self.new if now else self.old
        lock = self.after if now else self.before
        found = lock.target(target)
        pin = found.pin(name, kind) if found else None
        direct = pin.direct if pin and "direct" in side.knows else None
        graph = self._graph(now, target)
        if graph is None:
            return direct, None
        edges = graph.incoming.get(Node(kind, name), ())
        via = tuple(dict.fromkeys(edge.source.name for edge in edges if edge.source is not None))
        # a file that doesn't record direct requirements has roots that no package requires
        return direct, via if via or "direct" in side.knows else None

    def edges(self, kind: str, name: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the packages that one requires now and didn't before, and the reverse. Only for a package that
        stays."""
        graphs = self._graph(False, target), self._graph(True, target)
        node = Node(kind, name)
        if graphs[0] is None or graphs[1] is None or node not in graphs[0].pins or node not in graphs[1].pins:
            return (), ()
        before, after = ({edge.target.name for edge in graph.outgoing.get(node, ())} for graph in graphs if graph)
        return tuple(sorted(after - before)), tuple(sorted(before - after))

    def _graph(self, now: bool, name: str) -> Graph | None:
        """Return a graph; None for a side without edges, and for one whose requirements can't be read."""
        key = (now, name)
        if key not in self._graphs:
            side, lock = (self.new, self.after) if now else (self.old, self.before)
            self._graphs[key] = _built(lock.target(name)) if "edges" in side.knows else None
        return self._graphs[key]


def _built(target: LockedTarget | None) -> Graph | None:
    if target is None or not target.inputs.platform:
        return None
    try:
        return Graph.of(target)
    except ValueError:
        return None
