"""Packages on PyPI that install the same modules, and so overwrite each other."""

from __future__ import annotations

from functools import cache

from envspec.facts.tables import read, words
from envspec.record import dataclass


@dataclass(frozen=True)
class Overlap:
    """Packages (normalised names) that install `module`. `instead` says how to keep one of them."""

    packages: tuple[str, ...]
    module: str
    instead: str
    sources: tuple[str, ...]


@cache
def overlaps() -> tuple[Overlap, ...]:
    """Every row of the table, by module."""
    return tuple(
        Overlap(words(row["packages"]), row["module"], row["instead"], words(row["source"]))
        for row in read("overlaps")["overlaps"]
    )
