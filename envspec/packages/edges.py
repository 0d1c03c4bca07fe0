"""The requirements that hold in a target: by its markers, the extras that packages ask for, and the overrides."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from envspec.packages.requirement import EXTRA_MARKER, TEXTS, RequirementHead, canonical_name, head_of, parse_marker
from envspec.packages.tags import marker_environment

# Overrides: requirements that take the place of all others on their package, as uv's `--overrides` has them.
#
# An override replaces what the spec and every package require of its name: bounds, extras, URL and marker. Of the
# original marker only the extras stay: a requirement of an extra that nothing asks for stays out. An override whose
# own marker doesn't hold removes the requirement. (uv 0.13, tried.)

_COMPARISON = re.compile(
    r"""("[^"]*"|'[^']*'|[a-z_.]+)\s*(?:[<>=!~]=?=?|not\s+in\b|in\b)\s*("[^"]*"|'[^']*'|[a-z_.]+)"""
)
_TRUE = 'os_name != ""'
"""The stand-in for a comparison that isn't of an extra."""


class Overrides:
    """The overrides of a target, by package. False if there are none."""

    def __init__(self, requirements: Iterable[str] = ()) -> None:
        self._by_name: dict[str, tuple[str, ...]] = {}
        for text in requirements:
            name = head_of(text).name
            self._by_name[name] = (*self._by_name.get(name, ()), text)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def instead_of(self, requirement: str, extras: Collection[str] = ()) -> tuple[str, ...] | None:
        """Give the overrides that stand for a requirement of a package with these `extras`, whether or not their own
        markers hold; none of them if the requirement is of other extras. None if the requirement isn't overridden."""
        if not self._by_name:
            return None
        head = head_of(requirement)
        overrides = self._by_name.get(head.name)
        if overrides is None or head.marker is None:
            return overrides
        return overrides if _of_extras(str(head.marker), _that_matter(head, extras)) else ()


def _that_matter(requirement: RequirementHead, extras: Collection[str]) -> tuple[str, ...]:
    """Give the extras that a requirement's marker is judged with, however many its package is asked for: METADATA in
    which extras lead to each other would cost the cube of its size otherwise."""
    return tuple(sorted(requirement.extras_of_marker.intersection(extras)))


@lru_cache(maxsize=TEXTS)
def _of_extras(marker: str, extras: tuple[str, ...]) -> bool:
    """Return whether a marker may hold on some machine with one of these extras, or with none."""
    if "extra" not in marker:
        return True
    only_extras = parse_marker(
        _COMPARISON.sub(lambda comparison: comparison[0] if _is_extra(comparison) else _TRUE, marker)
    )
    return any(only_extras.evaluate({"extra": extra}) for extra in ("", *extras))


def _is_extra(comparison: re.Match[str]) -> bool:
    return "extra" in comparison.groups()


_NO_NAMES: frozenset[str] = frozenset()

Package = TypeVar("Package", bound=Hashable)


class Markers:
    """A judge of requirements' markers for CPython `python` ("3.12.14") on a conda subdir.

    Raises InputError for a platform that envspec doesn't know.
    """

    def __init__(self, platform: str, python: str) -> None:
        # METADATA has no groups, and uv takes `extras` for empty there
        self._environment: dict[str, str | frozenset[str]] = {"extras": _NO_NAMES, "dependency_groups": _NO_NAMES}
        self._environment |= marker_environment(platform, python)
        self._held: dict[frozenset[str], _Held] = {}
        self._judged: dict[tuple[str, str], bool] = {}

    def heads(self, extras: frozenset[str]) -> Mapping[str, RequirementHead | None]:
        """Give the function that reads a requirement of a package with these extras: its head, or None where it doesn't
        hold. Only `held(extras)[requirement]` is asked of it; raises ValueError for a text that isn't a requirement.
        """
        if extras not in self._held:
            self._held[extras] = _Held(lambda text: head_of(text) if self._judge(text, extras) else None)
        return self._held[extras]

    def hold(self, requirement: str, extras: Collection[str] = ()) -> bool:
        """Return whether a requirement holds if `extras` of its own package are asked for: with one of them, or without
        any. Raises ValueError for a text that isn't a requirement.
        """
        return self._judge(requirement, extras)

    def _judge(self, requirement: str, extras: Collection[str]) -> bool:
        head = head_of(requirement)
        marker = head.marker
        if marker is None:
            return True
        # Many requirements share a marker, and writing one out costs more than judging it.
        text = requirement.partition(";")[2].strip()
        for extra in ("", *_that_matter(head, extras)):
            key = (text, extra)
            if key not in self._judged:
                self._judged[key] = marker.evaluate({**self._environment, "extra": extra})
            if self._judged[key]:
                return True
        return False


class _Held(dict[str, "RequirementHead | None"]):
    """Heads by requirement, each read when it is first asked for."""

    def __init__(self, read: Callable[[str], RequirementHead | None]) -> None:
        self._read = read

    def __missing__(self, requirement: str) -> RequirementHead | None:
        head = self[requirement] = self._read(requirement)
        return head


@lru_cache(maxsize=64)
def markers_of(platform: str, python: str) -> Markers:
    """The judge for a platform and a Python: targets that share both share what it has judged. Raises as `Markers`."""
    return Markers(platform, python)


def effective(
    requirement: str, extras: Collection[str], markers: Markers, overrides: Overrides
) -> Iterable[tuple[str, bool]]:
    """Give the requirements that a package's requirement with these extras has in a target, each with whether it is an
    override: itself if it holds, or those overrides of its package that hold. Raises ValueError as `Markers.hold`."""
    if not overrides and head_of(requirement).marker is None:
        return ((requirement, False),)  # as most are
    instead = overrides.instead_of(requirement, extras)
    if instead is not None:
        return [(override, True) for override in instead if markers.hold(override)]
    return ((requirement, False),) if markers.hold(requirement, extras) else ()


def reach(
    roots: Iterable[tuple[Package, frozenset[str]]],
    following: Callable[[Package, frozenset[str], bool], Iterable[tuple[Package, frozenset[str]]]],
) -> dict[Package, frozenset[str]]:
    """Find every package that the roots lead to, with the extras that are asked of it.

    `following` gives the requirements of a package. Its last argument says whether it is asked for this package first:
    then it gives what holds without an extra or with one of these, and later what one of these adds. It is asked once
    for each extra of a package.
    """
    reached: dict[Package, set[str]] = {}
    waiting = [*roots][::-1]
    while waiting:
        package, extras = waiting.pop()
        first = package not in reached
        known = reached.setdefault(package, set())
        added = extras - known
        if first or added:
            known |= added
            waiting += [*following(package, added, first)][::-1]
    return {package: frozenset(extras) for package, extras in reached.items()}


def shortest_paths(roots: Iterable[str], requires: Callable[[str], Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Give a shortest path from one of the roots to each package that they lead to, both included: themselves too."""
    paths: dict[str, tuple[str, ...]] = {root: (root,) for root in roots}
    waiting = list(paths)
    for asker in waiting:
        for name in requires(asker):
            if name not in paths:
                paths[name] = (*paths[asker], name)
                waiting.append(name)
    return paths


class ByExtra:
    """The requirements of a package by the extras that bring them."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._by_extra: dict[str, list[str]] = {}
        for line in lines:
            try:
                named: Iterable[str] = head_of(line).extras_of_marker
            except ValueError:  # an error once one of its extras is asked for
                named = set(map(canonical_name, EXTRA_MARKER.findall(line)))
            for extra in named:
                self._by_extra.setdefault(extra, []).append(line)

    def lines(self, extras: Iterable[str]) -> Iterable[str]:
        """Give the requirements that may hold with one of these extras and don't hold without one."""
        return dict.fromkeys(line for extra in sorted(extras) for line in self._by_extra.get(extra, ()))
