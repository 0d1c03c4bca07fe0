"""The graph of requirements in one target, across pip and conda."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import NamedTuple

from msgspec import Struct, field

from envspec.base.errors import Place
from envspec.base.finding import Finding
from envspec.base.texts import nearest
from envspec.lock.model import LockedTarget, Pin, SolverView
from envspec.packages.edges import ByExtra, Overrides, effective, markers_of, reach
from envspec.packages.metadata import Metadata
from envspec.packages.names import conda_name
from envspec.packages.requirement import canonical_name, head_of


class Node(NamedTuple):
    """A package of the target, by the kind ("pip" or "conda") and name of its pin."""

    kind: str
    name: str


class Edge(NamedTuple):
    """`source` asks for `target` with `requirement`, as written. Source None is the spec.

    `kind` is the requirement's: "pip" (PEP 508) or "conda" (a match spec). A pip requirement may lead to a
    conda package. `overridden` is the requirement as published, where an override of the spec stands in its place.
    """

    source: Node | None
    target: Node
    requirement: str
    kind: str
    overridden: str | None = None

    @property
    def text(self) -> str:
        """The requirement for people, with what it overrides."""
        return self.requirement if self.overridden is None else f"{self.requirement} (overrides {self.overridden})"


_requirement = attrgetter("requirement")


class Missing(Struct, frozen=True):
    """A requirement that holds in this target and that no pin of the target satisfies. Source None is the spec."""

    source: Node | None
    requirement: str


class Tree(Struct, frozen=True):
    """A package, the edge to it (None at the top of an inverse tree), and its dependencies, or in an inverse tree its
    requirers.

    `repeated` says that the package was already expanded at least as deep; it has no children then.
    """

    node: Node
    edge: Edge | None
    children: tuple[Tree, ...] = ()
    repeated: bool = False


class Graph(Struct, frozen=True):
    """The edges of a target that hold there, markers and extras resolved.

    `roots` come from the spec. `outgoing` has an entry for every pin that a root reaches. `extras` are the requested
    extras of each pip package. `pins` are all pins of the target.
    """

    pins: Mapping[Node, Pin]
    roots: tuple[Edge, ...]
    outgoing: Mapping[Node, tuple[Edge, ...]]
    extras: Mapping[Node, frozenset[str]]
    missing: tuple[Missing, ...]
    incoming: Mapping[Node, tuple[Edge, ...]] = field(default_factory=dict)

    @staticmethod
    def of(target: LockedTarget, roots: Iterable[str] | None = None) -> Graph:
        """Return the graph of a target from its spec's requirements, or from the pip requirements `roots` instead of
        those."""
        inputs, extras = target.inputs, dict(target.extras)
        request = _Request(
            inputs.platform,
            inputs.full_python,
            tuple(inputs.requirements if roots is None else roots),
            inputs.conda_requirements,
            tuple(requirement for requirement, _ in inputs.overrides),
            (
                *((Node(pin.kind, pin.name), pin.dependencies, pin.provides) for pin in target.pins),
                *((Node("base", name), extras.get(name, ()), (name,)) for name, _ in target.provided),
            ),
        )
        edges = _follow(request)
        return Graph(
            {Node(pin.kind, pin.name): pin for pin in (*target.pins, *pins_of_base(target))},
            *(edges.roots, edges.outgoing, edges.extras, edges.missing, edges.incoming),
        )

    def find(self, name: str) -> tuple[Node, ...]:
        """Return the nodes of `packages_of_name`."""
        return packages_of_name(self.pins.values(), name)

    def paths_to(self, name: str, limit: int = 5) -> tuple[tuple[Edge, ...], ...]:
        """Return up to `limit` paths from the spec to a package, the shortest first. A path has no package twice."""
        distance = self._distances()
        direct: dict[Node, Edge] = {}
        for edge in self.roots:
            direct.setdefault(edge.target, edge)
        # A* backwards: what is known of the way, plus the least that is left to the spec. Of equals, the one that is
        # nearest to its end goes first, for all the others could be as long; then the texts make ties stable.
        queue: list[tuple[int, int, tuple[Node, ...], tuple[Edge, ...]]] = [
            (distance[node], 0, (node,), ()) for node in self.find(name) if node in distance
        ]
        heapq.heapify(queue)
        paths: list[tuple[Edge, ...]] = []
        while queue and len(paths) < limit:
            _, _, nodes, edges = heapq.heappop(queue)
            if edges and edges[0].source is None:
                paths.append(edges)
                continue
            head, known = nodes[0], len(edges) + 1
            if head in direct:
                heapq.heappush(queue, (known, -known, nodes, (direct[head], *edges)))
            sources: set[Node] = set()
            for edge in self.incoming.get(head, ()):
                source = edge.source
                if source is None or source in nodes or source in sources:
                    continue
                sources.add(source)
                heapq.heappush(queue, (known + distance[source], -known, (source, *nodes), (edge, *edges)))
        return tuple(paths)

    def tree(self, depth: int | None = None) -> tuple[Tree, ...]:
        """Return the packages that the spec requires, directly or not, at most `depth` levels below the spec's own.

        A package is expanded once, and again only where `depth` leaves more room for it than it had before.
        """
        seen: dict[Node, float] = {}
        return tuple(
            self._grow(edge.target, edge, seen, inf if depth is None else depth, inverse=False) for edge in self.roots
        )

    def inverse(self, name: str, depth: int | None = None) -> tuple[Tree, ...]:
        """Return the packages that require a package, level by level. A branch ends at a package that the spec asks
        for."""
        seen: dict[Node, float] = {}
        return tuple(
            self._grow(node, None, seen, inf if depth is None else depth, inverse=True) for node in self.find(name)
        )

    def _grow(self, node: Node, edge: Edge | None, seen: dict[Node, float], depth: float, *, inverse: bool) -> Tree:
        """Grow a tree. `seen` has how deep each package was expanded, `depth` is how deep this one may be."""
        edges = (self.incoming if inverse else self.outgoing).get(node, ())
        if seen.get(node, 0) >= depth:
            return Tree(node, edge, repeated=node in seen and bool(edges))
        seen[node] = depth
        following = ((each.source if inverse else each.target, each) for each in edges)
        children = tuple(self._grow(n, e, seen, depth - 1, inverse=inverse) for n, e in following if n is not None)
        return Tree(node, edge, children)

    def _distances(self) -> dict[Node, int]:
        """Return the least number of edges from the spec to each package that it reaches."""
        distance: dict[Node, int] = {edge.target: 1 for edge in self.roots}
        level = list(distance)
        while level:
            following = []
            for node in level:
                for edge in self.outgoing[node]:
                    if edge.target not in distance:
                        distance[edge.target] = distance[node] + 1
                        following.append(edge.target)
            level = following
        return distance


def pins_of_base(target: LockedTarget) -> Iterator[Pin]:
    """Give the packages that a target retains of its base, as pins without a file. Their requirements are the base's
    own, without those of extras."""
    lines = dict(target.extras)
    for name, version in target.provided:
        known = SolverView(Metadata(name, version, lines.get(name, ())))
        yield Pin("base", name, version, "base", None, lines.get(name, ()), solver=known)


class _Request(Struct, frozen=True):
    """The parts of a target that decide its edges: packages with their requirements, and the platform. Versions and
    files aren't among them."""

    platform: str
    python: str
    requirements: tuple[str, ...]
    conda_requirements: tuple[str, ...]
    overrides: tuple[str, ...]
    packages: tuple[tuple[Node, tuple[str, ...], tuple[str, ...]], ...]
    """Each with its dependencies, and with what it provides."""


class _Edges(Struct, frozen=True):
    """The fields of a `Graph` that follow from a request."""

    roots: tuple[Edge, ...]
    outgoing: Mapping[Node, tuple[Edge, ...]]
    extras: Mapping[Node, frozenset[str]]
    missing: tuple[Missing, ...]
    incoming: Mapping[Node, tuple[Edge, ...]]


@lru_cache(maxsize=16)
def _follow(request: _Request) -> _Edges:
    """Follow the edges. Targets that differ in the files of their packages alone share them."""
    return _Builder(request).build()


class _Builder:
    def __init__(self, request: _Request) -> None:
        self.request = request
        self.dependencies = {node: texts for node, texts, _ in request.packages}
        provided = {canonical_name(name): node for node, _, names in request.packages for name in names}
        self.pip = {**provided, **{node.name: node for node in self.dependencies if node.kind == "pip"}}
        self.markers = markers_of(request.platform, request.python)
        self.overrides = Overrides(request.overrides)
        self.missing: dict[Missing, None] = {}

    def build(self) -> _Edges:
        outgoing: dict[Node, tuple[Edge, ...]] = {}
        grown: dict[Node, ByExtra] = {}
        of_pip = self._pip_edges(None, sorted(self.request.requirements), frozenset())
        of_conda = (edge for text in self.request.conda_requirements for edge in self._conda_edge(None, text))
        roots = tuple(dict.fromkeys((*of_pip, *of_conda)))

        def following(node: Node, added: frozenset[str], first: bool) -> Iterator[tuple[Node, frozenset[str]]]:
            texts = self.dependencies[node]
            if first:
                outgoing[node] = tuple(self._edges(node, added, texts))
                return map(_target_and_extras, outgoing[node])
            if node not in grown:
                grown[node] = ByExtra(texts)
            return map(_target_and_extras, self._edges(node, added, grown[node].lines(added)))

        extras = reach(map(_target_and_extras, roots), following)
        outgoing |= {node: tuple(self._edges(node, extras[node], self.dependencies[node])) for node in grown}
        incoming: dict[Node, list[Edge]] = {}
        for node in sorted(outgoing):
            for edge in sorted(outgoing[node], key=_requirement):
                incoming.setdefault(edge.target, []).append(edge)
        return _Edges(
            roots=roots,
            outgoing=outgoing,
            extras=extras,
            missing=tuple(self.missing),
            incoming={node: tuple(edges) for node, edges in incoming.items()},
        )

    def _edges(self, node: Node, extras: frozenset[str], texts: Iterable[str]) -> Iterable[Edge]:
        if node.kind != "conda":
            return self._pip_edges(node, texts, extras)
        return (edge for text in texts for edge in self._conda_edge(node, text))

    def _conda_edge(self, source: Node | None, text: str) -> Iterator[Edge]:
        name = conda_name(text)
        # `__glibc` and its like are facts of the machine, not packages.
        if name.startswith("__"):
            return
        target = Node("conda", name)
        if target in self.dependencies:
            yield Edge(source, target, text, "conda")
        else:
            self.missing[Missing(source, text)] = None

    def _pip_edges(self, source: Node | None, texts: Iterable[str], extras: frozenset[str]) -> list[Edge]:
        if self.overrides:
            effective_lines = (
                (text, *pair) for text in texts for pair in effective(text, extras, self.markers, self.overrides)
            )
            requirements = (
                (requirement, head_of(requirement).name, text if overridden else None)
                for text, requirement, overridden in effective_lines
            )
        else:
            held = self.markers.heads(extras)
            requirements = ((text, head.name, None) for text in texts if (head := held[text]))
        edges = []
        for requirement, name, overridden in requirements:
            target = self.pip.get(name)
            if target is None:
                self.missing[Missing(source, requirement)] = None
            else:
                edges.append(Edge(source, target, requirement, "pip", overridden))
        return edges


def packages_of_name(pins: Iterable[Pin], name: str) -> tuple[Node, ...]:
    """Return the packages of a name in any spelling: conda and pip may both have one. Where neither has one, return the
    packages that provide it: conda's `pytorch` is PyPI's `torch`.
    """
    canonical = canonical_name(name)
    own: list[Node] = []
    providing: list[Node] = []
    for pin in pins:
        if canonical_name(pin.name) == canonical:
            own.append(Node(pin.kind, pin.name))
        elif pin.provides and canonical in map(canonical_name, pin.provides):
            providing.append(Node(pin.kind, pin.name))
    return tuple(sorted(own or providing))


def _target_and_extras(edge: Edge) -> tuple[Node, frozenset[str]]:
    """Return where an edge leads, and the extras that it asks for there."""
    if edge.kind == "conda" or "[" not in edge.requirement:
        return edge.target, _NONE
    return edge.target, head_of(edge.requirement).extras


_NONE: frozenset[str] = frozenset()


# Requested extras that add nothing.


def findings(target: LockedTarget, places: Mapping[str, Place]) -> Iterator[Finding]:
    """Yield a warning for each extra that adds nothing: an extra of a conda package, which has none, or an extra that a
    wheel's METADATA doesn't offer.

    `places` gives the place in the spec of each package. Packages whose METADATA wasn't read are skipped.
    """
    graph = Graph.of(target)
    for edge in dict.fromkeys(_edges(graph)):
        extras = head_of(edge.requirement).extras if edge.kind == "pip" else frozenset()
        if not extras:
            continue
        asker = edge.source.name if edge.source else "the spec"
        place = None if edge.source else places.get(edge.target.name)
        pin = graph.pins[edge.target]
        if pin.kind == "conda":
            message = f"{asker} asks for {edge.requirement}, but conda packages have no extras"
            remedy = "if you need the extra, add its packages to the spec"
            yield Finding("warning", "conda-extras", message, remedy=remedy)
            continue
        offered = pin.solver.metadata.extras if pin.solver.metadata else extras
        for extra in sorted(extras - offered):
            label = f"{pin.name} {pin.version}"
            lacks = (
                f"the base's {label} requires nothing for it" if pin.kind == "base" else f"{label} has no such extra"
            )
            yield _unknown(f"{asker} asks for {pin.name}[{extra}], but {lacks}", extra, offered, place)


_OFFERS = {"pip": "{} {} has no such extra", "base": "the base's {} {} requires nothing for it"}


def _unknown(message: str, extra: str, offered: frozenset[str], place: Place | None) -> Finding:
    meant = nearest(extra, sorted(offered))
    listed = ", ".join(sorted(offered)[:12]) + (", …" if len(offered) > 12 else "")
    remedy = f"did you mean {meant}?" if meant else f"its extras: {listed}" if offered else "leave the extra out"
    return Finding("warning", "unknown-extra", message, place, remedy)


def _edges(graph: Graph) -> Iterator[Edge]:
    yield from graph.roots
    for edges in graph.outgoing.values():
        yield from edges
