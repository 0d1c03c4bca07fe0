"""Bounds on Python's version: a spec's ("3.12", "3.12.4", ">=3.11,<3.13"), and a release's Requires-Python.

A spec's Python is a minor version, which decides wheels' tags and folders, and often a bound on its patch releases.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from packaging.specifiers import SpecifierSet

from envspec.packages.requirement import published_requirement
from envspec.packages.tags import takes_python
from envspec.packages.version_numbers import numbers

_PATCHES = 40
"""More patch releases than any minor version of CPython had."""
_CAPPING = ("<", "!", "=", "~")
"""How the clauses begin that a later Python may break."""


def parse_python(text: str, minors: Iterable[str]) -> tuple[str, str | None] | None:
    """Read what a spec writes: the minor version, the newest of those known that has a release in the range, and the
    bound beside it as a specifier, None where the minor version says it all. None where no version of these fits.

    Raises ValueError for a text that is neither a version nor a specifier.
    """
    known = sorted(minors, key=numbers)
    if text in known:
        return text, None
    bound = normalise_specifier(f"=={text}" if text[:1].isdigit() else text)
    fitting = [minor for minor in known if releases_of(minor, bound)]
    if len(fitting) == 1 and releases_of(fitting[0], bound) == releases_of(fitting[0], None):
        return fitting[0], None
    return (fitting[-1], bound) if fitting else None


def normalise_specifier(specifier: str) -> str:
    """Write a specifier with its clauses in order. Raises ValueError."""
    return ",".join(sorted(map(str, SpecifierSet(specifier))))


def minor_after(minor: str) -> str:
    """Name the minor version after one: "3.13" after "3.12"."""
    major, number = minor.split(".")
    return f"{major}.{int(number) + 1}"


@lru_cache(maxsize=256)
def releases_of(minor: str, bound: str | None) -> tuple[str, ...]:
    """List the patch releases of a minor version that a bound admits, whether they exist or not, the oldest first."""
    every = (f"{minor}.{patch}" for patch in range(_PATCHES))
    return tuple(version for version in every if bound is None or takes_python(bound, version))


def range_between(first: str, last: str) -> str:
    """Write the specifier of the patch releases from one to another of its minor version, as `releases_of` has them."""
    minor, patch = last.rsplit(".", 1)
    if first == last:
        return f"=={first}"
    after = f"{minor}.{int(patch) + 1}" if int(patch) + 1 < _PATCHES else minor_after(minor)
    return f">={first},<{after}"


def is_within(version: str, minor: str, bound: str | None) -> bool:
    """Say whether a Python ("3.12.4") is of a minor version, and what a bound admits."""
    return version.startswith(f"{minor}.") and (bound is None or takes_python(bound, version))


@lru_cache(maxsize=4096)
def binding_range(requires: str | None, minor: str) -> str | None:
    """Give the part of a Requires-Python that a lock holds: all of it, normalised, where a clause may refuse a Python
    of this minor version or a later one. None for a floor below them, for none, and for what isn't a specifier."""
    try:
        said = normalise_specifier(str(published_requirement(f"python {requires or ''}").specifier))
    except ValueError:
        return None
    caps = any(clause.startswith(_CAPPING) for clause in said.split(","))
    return said if said and (caps or not takes_python(said, f"{minor}.0")) else None
