"""The most used names of PyPI, and which of them a name could be mistaken for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from envspec.facts.tables import read

SHORTEST = 5
"""Characters. Names that are shorter are near to too many others."""


@cache
def names() -> frozenset[str]:
    """Give the most used names of PyPI, normalised."""
    return frozenset(read("most_used")["names"].split())


def mistaken_for(name: str) -> str | None:
    """Give a most used name that `name` (normalised) could be mistaken for: one that differs by one character, by two
    neighbours in each other's place, or in its hyphens alone. None where there is none, and for a most used name.

    The comparison covers what typosquats of the last years did to a name: a letter left out, doubled, swapped or
    replaced by its neighbour, a hyphen added or taken away. A hyphenated word in front or behind it isn't covered: most
    such packages are plugins.
    """
    if len(name) < SHORTEST or name in names():
        return None
    plain = _near()
    return min((known for key in _shorter(name) for known in plain.get(key, ()) if _is_near(name, known)), default=None)


@cache
def _near() -> dict[str, tuple[str, ...]]:
    """Give the most used names by each text that is left of them without one character."""
    found: dict[str, list[str]] = {}
    for known in sorted(names()):
        if len(known) >= SHORTEST:
            for key in _shorter(known):
                found.setdefault(key, []).append(known)
    return {key: tuple(several) for key, several in found.items()}


def _shorter(name: str) -> Iterator[str]:
    yield from dict.fromkeys((name, *_without_one(name), _joined(name)))


def _without_one(name: str) -> tuple[str, ...]:
    return tuple(name[:at] + name[at + 1 :] for at in range(len(name)))


def _joined(name: str) -> str:
    return name.replace("-", "")


def _is_near(one: str, other: str) -> bool:
    if _joined(one) == _joined(other):
        return True
    short, long = sorted((one, other), key=len)
    if len(short) != len(long):
        return short in _without_one(long)
    at = next(place for place in range(len(one)) if one[place] != other[place])
    rest, behind = one[at + 1 :], other[at + 1 :]
    return rest == behind or (one[at] + rest[:1] == behind[:1] + other[at] and rest[1:] == behind[1:])
