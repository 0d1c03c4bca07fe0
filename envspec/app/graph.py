"""Paths and trees of a lock's packages: an answer for each target, printed once for all targets that share it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import printable
from envspec.lock.graph import Edge, Graph, Tree, packages_of_name, pins_of_base
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.packages.requirement import head_of
from envspec.spec.model import Spec

Answer = TypeVar("Answer", bound=Hashable)


class Grouped(Struct, Generic[Answer], frozen=True):
    """Each answer once, with the names of its targets, in the targets' order."""

    spec: Spec
    lock: Lock
    groups: tuple[tuple[tuple[str, ...], Answer], ...]


class ExplainedPackage(Struct, frozen=True):
    """The part of a pin that `why` shows: targets whose pins are equal in it have the same answer."""

    kind: str
    name: str
    version: str
    build: str | None
    index: str
    licence: str | None
    direct: bool

    @staticmethod
    def of(pin: Pin) -> ExplainedPackage:
        return ExplainedPackage(pin.kind, pin.name, pin.version, pin.build, pin.index, pin.licence, pin.direct)


class Step(Struct, frozen=True):
    """One requirement on a path.

    `requirement` is what the package `name` asks for, in its own words, or the override in its place. `kind`,
    `name` and `version` are None where the spec asks. The version has no local part: torchvision 0.24.1+cu126 in
    one target and 0.24.1+cpu in another are the same reason for numpy.
    """

    kind: str | None
    name: str | None
    version: str | None
    requirement: str

    @staticmethod
    def of(edge: Edge, graph: Graph) -> Step:
        if edge.source is None:
            return Step(None, None, None, edge.text)
        pin = graph.pins[edge.source]
        return Step(pin.kind, pin.name, pin.version.partition("+")[0], edge.text)


class Explanation(Struct, frozen=True):
    """The reasons why a target has the packages of a name (conda and pip may both have one).

    `paths` lead from the spec to a package, the shortest first; `more` says that others exist. All fields are empty for
    a target without the package.
    """

    packages: tuple[ExplainedPackage, ...]
    paths: tuple[tuple[Step, ...], ...]
    more: bool = False


def why(path: str, package: str, targets: Sequence[str], limit: int, locks_dir: Path | None) -> Grouped[Explanation]:
    """Find why targets have a package, by at most `limit` paths each. Neither spec nor lock is judged.

    Raises SpecError, LockError, InputError for an unknown target, AnswerNo where none has the package.
    """
    spec, lock = inputs.only_read_lock(path, locks_dir)
    chosen = inputs.locked_targets(lock, targets)
    groups = _group(chosen, lambda target: _answer(target, package, limit))
    if not any(answer.packages for _, answer in groups):
        raise _missing_package(package, lock, chosen)
    return Grouped(spec, lock, groups)


def _answer(target: LockedTarget, package: str, limit: int) -> Explanation:
    """Find why `target` has `package`, by any spelling, or by the PyPI name that a conda package provides."""
    nodes = packages_of_name((*target.pins, *pins_of_base(target)), package)
    if not nodes:
        return Explanation((), ())
    graph = Graph.of(target)
    paths = graph.paths_to(package, limit + 1)
    return Explanation(
        tuple(ExplainedPackage.of(graph.pins[node]) for node in nodes),
        tuple(tuple(Step.of(edge, graph) for edge in path) for path in paths[:limit]),
        len(paths) > limit,
    )


def _missing_package(package: str, lock: Lock, chosen: tuple[LockedTarget, ...]) -> AnswerNo:
    elsewhere = [target.name for target in lock if packages_of_name(target.pins, package)]
    shown = printable(package)
    if elsewhere:
        return AnswerNo(
            f"{shown} isn't locked for {', '.join(target.name for target in chosen)}",
            hint=f"it is locked for {', '.join(elsewhere)}",
        )
    return AnswerNo(f"{shown} isn't in the lock of {lock.name}", hint=inputs.did_you_mean(package, lock))


class Branch(Struct, frozen=True):
    """A package in its place in the tree.

    `requirement` led to it (in an inverse tree: its requirement of the package above); None at the top of one package's
    tree. `condition` is the requirement's marker, "" without one. `direct` says that the spec itself asks for the
    package. `repeated` says that its branches stand at its first place.
    """

    kind: str
    name: str
    version: str
    extras: tuple[str, ...]
    requirement: str | None
    condition: str
    direct: bool
    repeated: bool
    branches: tuple[Branch, ...]


def trees(
    path: str, targets: Sequence[str], package: str | None, depth: int | None, locks_dir: Path | None, *, inverse: bool
) -> Grouped[tuple[Branch, ...]]:
    """Find the requirements between packages, from the spec or from one package, so many levels deep; `inverse` finds
    the packages that require it.

    Raises as `look_at_lock`, InputError for an unknown target, AnswerNo where none has the package.
    """
    if inverse and package is None:
        raise InputError("--inverse needs --package", hint=f"envspec tree {path} --inverse --package PKG")
    spec, lock = inputs.look_at_lock(path, locks_dir)
    chosen = inputs.locked_targets(lock, targets)
    groups = _group(chosen, lambda target: _branches(target, package, depth, inverse=inverse))
    if package is not None and not any(branches for _, branches in groups):
        message = f"{printable(package)} isn't in the lock of {lock.name}"
        raise AnswerNo(message, hint=inputs.did_you_mean(package, lock))
    return Grouped(spec, lock, groups)


def _branches(target: LockedTarget, package: str | None, depth: int | None, *, inverse: bool) -> tuple[Branch, ...]:
    graph = Graph.of(target)
    if package is None:
        trees = graph.tree(depth)
    elif inverse:
        trees = graph.inverse(package, depth)
    else:
        # a tree whose roots are the package itself
        starts = tuple(Edge(None, node, "", node.kind) for node in graph.find(package))
        trees = tuple(replace(tree, edge=None) for tree in replace(graph, roots=starts).tree(depth))
    direct = {edge.target for edge in graph.roots}

    def branch(tree: Tree) -> Branch:
        pin = graph.pins[tree.node]
        return Branch(
            kind=pin.kind,
            name=pin.name,
            version=pin.version,
            extras=() if inverse or tree.edge is None else _extras(tree.edge),
            requirement=None if tree.edge is None else tree.edge.text,
            condition="" if tree.edge is None else _condition(tree.edge),
            direct=tree.node in direct,
            repeated=tree.repeated,
            branches=tuple(map(branch, tree.children)),
        )

    return tuple(map(branch, trees))


def _extras(edge: Edge) -> tuple[str, ...]:
    return tuple(sorted(head_of(edge.requirement).extras)) if edge.kind == "pip" else ()


def _condition(edge: Edge) -> str:
    """Give the marker of a requirement; a conda package's has none."""
    marker = head_of(edge.requirement).marker if edge.kind == "pip" else None
    return str(marker) if marker else ""


def _group(
    targets: Iterable[LockedTarget], answer: Callable[[LockedTarget], Answer]
) -> tuple[tuple[tuple[str, ...], Answer], ...]:
    """Group the targets by their answer: each answer once, with the names of its targets, in the targets' order."""
    groups: dict[Answer, list[str]] = {}
    for target in targets:
        groups.setdefault(answer(target), []).append(target.name)
    return tuple((tuple(names), value) for value, names in groups.items())
