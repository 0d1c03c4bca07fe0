"""Paths that several packages of a target have, and the order of installation, which decides whose content stays.

conda's packages come first, then pip's in pip's own order, then the spec's project. uv installs wheels side by side, so
the content at a path of two wheels would depend on its threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from envspec.lock.model import LockedTarget, Pin
from envspec.packages.edges import ByExtra, Overrides, effective, markers_of
from envspec.packages.requirement import head_of

_Node = tuple[str, frozenset[str]]
"""A package with some of its extras: pip's resolver has one for each set of them that is asked for."""
_ROOT: _Node = ("", frozenset())
_VISITS = 5
"""The number of pip's walks through a package of a cycle."""


class SharedPath(Struct, frozen=True):
    """A path below the folder of Python's packages, and the packages that have it; the last one's content stays.
    `differs` says whether they have different content there."""

    path: str
    owners: tuple[str, ...]
    differs: bool


def in_install_order(target: LockedTarget) -> tuple[Pin, ...]:
    """Give the packages of a target in the order of installation: conda's, then pip's."""
    place = {name: number for number, name in enumerate(pip_order(target))}
    return tuple(sorted(target.pins, key=lambda pin: place[pin.name] if pin.kind == "pip" else -1))


@lru_cache(maxsize=64)
def pip_order(target: LockedTarget) -> tuple[str, ...]:
    """Name the pip packages of a target in pip's order of installation: dependencies first, of equals the last name
    first (`Resolver.get_installation_order` of pip 26.3, which promises no order within a cycle)."""
    children = _edges(target)
    parents: dict[_Node, list[_Node]] = {}
    for node, below in children.items():
        for child in below:
            parents.setdefault(child, []).append(node)
    waits_for = {node: len(below) for node, below in children.items() if node != _ROOT}
    weight: dict[_Node, int] = {}
    leaves = [node for node, number in waits_for.items() if not number]
    while leaves:
        weight |= dict.fromkeys(leaves, len(children) - len(weight))
        parent_counts = Counter(parent for leaf in leaves for parent in parents.get(leaf, ()) if parent != _ROOT)
        for parent, number in parent_counts.items():
            waits_for[parent] -= number
        leaves = [parent for parent in parent_counts if not waits_for[parent]]
    left = children.keys() - weight.keys()
    weight |= _depths({node: sorted(children[node] & left, key=_sort_items) for node in children if node in left})
    names = {name for name, extras in weight if not extras} - {""}
    ordered = sorted(names, key=lambda name: (weight[name, frozenset()], name), reverse=True)
    unreached = {pin.name for pin in target.pins if pin.kind == "pip"} - names
    return (*sorted(unreached, reverse=True), *ordered)


def _sort_items(node: _Node) -> tuple[str, list[str]]:
    return node[0], sorted(node[1])


def _edges(target: LockedTarget) -> dict[_Node, frozenset[_Node]]:
    inputs = target.inputs
    markers = markers_of(inputs.platform, inputs.full_python)
    overrides = Overrides(tuple(requirement for requirement, _ in inputs.overrides))
    pins = {pin.name: pin for pin in target.pins if pin.kind == "pip"}
    by_extra: dict[str, ByExtra] = {}
    children: dict[_Node, frozenset[_Node]] = {}
    waiting = [_ROOT]
    while waiting:
        node = waiting.pop()
        if node in children:
            continue
        name, extras = node
        lines: Iterable[str] = pins[name].dependencies if name else inputs.requirements
        if extras:
            if name not in by_extra:
                by_extra[name] = ByExtra(lines)
            # what it requires without them is the child's
            lines = by_extra[name].lines(extras)
        heads = (
            head_of(requirement) for line in lines for requirement, _ in effective(line, extras, markers, overrides)
        )
        below = {(head.name, frozenset(some)) for head in heads if head.name in pins for some in ((), head.extras)}
        children[node] = frozenset((below | {(name, frozenset())} if extras else below) - {node})
        waiting += sorted(children[node], key=_sort_items)
    return children


def _depths(children: Mapping[_Node, Sequence[_Node]]) -> dict[_Node, int]:
    """Measure the depths, below the root, of the packages that lead to a cycle: the lengths of their longest paths
    without one."""
    lengths: dict[_Node, list[int]] = {node: [] for node in children}
    stack, path = [(_ROOT, iter(children[_ROOT]))], {_ROOT}
    while stack:
        node, rest = stack[-1]
        below = next((child for child in rest if child not in path and len(lengths[child]) < _VISITS), None)
        if below is None:
            stack.pop()
            path.discard(node)
            lengths[node].append(len(path))
        else:
            path.add(below)
            stack.append((below, iter(children[below])))
    return {node: max(depths, default=0) for node, depths in lengths.items()}


def shared_paths(contents: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[SharedPath]:
    """Find the paths that several packages have, by path. `contents` gives each package in the order of installation,
    with a mark of the content at each of its paths."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for name, paths in contents:
        for path, content in paths.items():
            owners.setdefault(path, []).append((name, content))
    for path, holders in sorted(owners.items()):
        if len(holders) > 1:
            yield SharedPath(path, tuple(name for name, _ in holders), len({content for _, content in holders}) > 1)


def overwrites(shared: Iterable[SharedPath]) -> dict[str, set[str]]:
    """Give, for each package, the packages whose files it overwrites."""
    under: dict[str, set[str]] = {}
    for path in shared:
        if path.differs:
            for place, name in enumerate(path.owners):
                under.setdefault(name, set()).update(path.owners[:place])
    return {name: overwritten for name, overwritten in under.items() if overwritten}


def waves(names: Sequence[str], under: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Split packages, in the order of installation, into groups that may be installed side by side: a package that
    overwrites another's file comes in a later group. `under` gives, for each package, those that it overwrites."""
    level: dict[str, int] = {}
    for name in names:
        level[name] = max((level[other] + 1 for other in under.get(name, ()) if other in level), default=0)
    return [[name for name in names if level[name] == number] for number in sorted(set(level.values()))]
