"""The most used names of PyPI, and which of them a name could be mistaken for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from envspec.facts.cuda_stack import of_any_cuda
from envspec.facts.tables import read

SHORTEST = 5
"""Characters. Names that are shorter are near to too many others."""


@cache
def names() -> frozenset[str]:
    """Give the most used names of PyPI, normalised."""
    return frozenset(read("most_used")["names"].split())


def lookalike(name: str) -> str | None:
    """Give a most used name that `name` (normalised) could be mistaken for: one that differs by one character, by two
    neighbours in each other's place, or in its hyphens alone. None where there is none, and for a most used name.

    The comparison covers what typosquats of the last years did to a name: a letter left out, doubled, swapped or
    replaced by its neighbour, a hyphen added or taken away. A hyphenated word in front or behind it isn't covered: most
    such packages are plugins. A build for another CUDA (cupy-cuda13x beside cupy-cuda12x) is its project's own, and a
    name like such a build's is as near to it as to the one that is much used.
    """
    if len(name) < SHORTEST or name in names():
        return None
    build = of_any_cuda(name)
    if build in _builds():
        return None
    known: set[str] = set()
    if len(name) <= _longest() + 1:
        known |= {edit for edit in _edits(name) if len(edit) >= SHORTEST} & names()
        known |= {_builds()[edit] for edit in _edits(build or "") if edit in _builds()}
    return min(known, default=_names_without_hyphens().get(name.replace("-", "")))


@cache
def _longest() -> int:
    """Give the length of the longest name: a longer one by two is an edit away from none, and would have 77 edits for
    each of its letters."""
    return max(map(len, names()))


@cache
def _builds() -> dict[str, str]:
    """Give the most used names that have a CUDA in them, by what they are with any other."""
    return {build: name for name in sorted(names(), reverse=True) if (build := of_any_cuda(name))}


@cache
def _names_without_hyphens() -> dict[str, str]:
    """Give the most used names by their text without hyphens."""
    return {name.replace("-", ""): name for name in sorted(names(), reverse=True) if len(name) >= SHORTEST}


def _edits(name: str) -> Iterator[str]:
    """Yield every name that is one edit away."""
    for at in range(len(name) + 1):
        before, rest = name[:at], name[at:]
        yield before + rest[1:]
        yield before + rest[1:2] + rest[:1] + rest[2:]
        for letter in _LETTERS:
            yield before + letter + rest
            yield before + letter + rest[1:]


_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-"
