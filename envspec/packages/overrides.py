"""Overrides: requirements that take the place of all others on their package, as uv's `--overrides` has them.

An override replaces what the spec and every package require of its name: bounds, extras, URL and marker. Of the
original marker only the extras stay: a requirement of an extra that nothing asks for stays out. An override whose own
marker doesn't hold removes the requirement. (uv 0.13, tried.)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from envspec.packages.requirement import TEXTS, head_of, parse_marker

_COMPARISON = re.compile(
    r"""("[^"]*"|'[^']*'|[a-z_.]+)\s*(?:[<>=!~]=?=?|not\s+in\b|in\b)\s*("[^"]*"|'[^']*'|[a-z_.]+)"""
)
_TRUE = 'os_name != ""'
"""What stands for a comparison that isn't of an extra."""


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
        one = head_of(requirement)
        found = self._by_name.get(one.name)
        if found is None or one.marker is None:
            return found
        return found if _of_extras(str(one.marker), tuple(sorted(extras))) else ()


@lru_cache(maxsize=TEXTS)
def _of_extras(marker: str, extras: tuple[str, ...]) -> bool:
    """Say whether a marker may hold on some machine with one of these extras, or with none."""
    if "extra" not in marker:
        return True
    only_extras = parse_marker(_COMPARISON.sub(lambda found: found[0] if _is_extra(found) else _TRUE, marker))
    return any(only_extras.evaluate({"extra": extra}) for extra in ("", *extras))


def _is_extra(comparison: re.Match[str]) -> bool:
    return "extra" in comparison.groups()
