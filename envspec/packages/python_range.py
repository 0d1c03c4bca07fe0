"""Bounds on Python's version: a spec's ("3.12", "3.12.4", ">=3.11,<3.13"), and a release's Requires-Python.

A spec's Python is a minor version, which decides wheels' tags and folders, and often a bound on its patch releases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from packaging.specifiers import SpecifierSet

from envspec.packages.requirement import parse_specifier, published_requirement
from envspec.packages.tags import takes_python
from envspec.packages.version_numbers import numbers

_PATCHES = 40
"""More patch releases than any minor version of CPython had."""
_MINORS = tuple(f"3.{minor}" for minor in range(30))
"""More minor versions than any bound names."""
_CAPPING = ("<", "!", "=", "~")
"""Starts of the clauses that a later Python may break."""


def parse_python(text: str, minors: Iterable[str]) -> tuple[str, str | None] | None:
    """Read a spec's Python: the minor version, the newest of those known that has a release in the range, and the bound
    beside it as a specifier, None where the minor version says it all. None where no version of these fits.

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


def narrow(bound: str, more: str, minors: Iterable[str]) -> str | None:
    """Write the bound that two have together on the releases of these minor versions; `bound` itself where that is all
    of it. None where no release is left."""
    own = {minor: own_releases for minor in minors if (own_releases := releases_of(minor, bound))}
    left = {
        minor: tuple(release for release in releases if takes_python(more, release)) for minor, releases in own.items()
    }
    if left == own or not any(left.values()):
        return bound if any(left.values()) else None
    if len(own) == 1:
        return bound_of(next(iter(left.values())))
    return normalise_specifier(f"{bound},{more}")


def bound_of(releases: Sequence[str]) -> str | None:
    """Write the bound that admits exactly these patch releases of a minor version; None for all of them."""
    every = releases_of(releases[0].rpartition(".")[0], None)
    if tuple(releases) == every:
        return None
    between = every[every.index(releases[0]) : every.index(releases[-1])]
    gaps = (f"!={version}" for version in between if version not in releases)
    return normalise_specifier(",".join((range_between(releases[0], releases[-1]), *gaps)))


def specifier_of_alternatives(specifiers: Sequence[str]) -> str | None:
    """Write the specifier of what one of these admits, as Poetry's `||` joins them; empty for all, None for none."""
    if len(specifiers) == 1:
        return specifiers[0]
    return specifier_of(lambda version: any(takes_python(specifier, version) for specifier in specifiers))


def specifier_of(is_admitted: Callable[[str], bool], text: str = "") -> str | None:
    """Write the specifier of the releases that are admitted, `text` itself where that is one and admits the same; empty
    for all of Python 3, None for none."""
    every = [version for minor in _MINORS for version in releases_of(minor, None)]
    left = {version for version in every if is_admitted(version)}
    if not left or len(left) == len(every):
        return "" if left else None
    try:
        parse_specifier(text)
    except ValueError:
        pass
    else:
        if text and all(takes_python(text, version) == (version in left) for version in every):
            return text.strip()
    first, last = (next(version for version in versions if version in left) for versions in (every, reversed(every)))
    at, end = every.index(first), every.index(last) + 1
    clauses = [f">={first.removesuffix('.0')}"] if at else []
    clauses += [f"<{every[end].removesuffix('.0')}"] if end < len(every) else []
    for minor in _MINORS:
        gaps = [version for version in releases_of(minor, None) if version in every[at:end] and version not in left]
        clauses += [f"!={minor}.*"] if len(gaps) == _PATCHES else [f"!={version}" for version in gaps]
    return ",".join(clauses)


def is_within(version: str, minor: str, bound: str | None) -> bool:
    """Return whether a Python ("3.12.4") is of a minor version, and what a bound admits."""
    return version.startswith(f"{minor}.") and (bound is None or takes_python(bound, version))


@lru_cache(maxsize=4096)
def binding_range(requires: str | None, minor: str) -> str | None:
    """Give the part of a Requires-Python that a lock holds: all of it, normalised, where a clause may refuse a Python
    of this minor version or a later one. None for a floor below them, for none, and for what isn't a specifier."""
    try:
        specifier = normalise_specifier(str(published_requirement(f"python {requires or ''}").specifier))
    except ValueError:
        return None
    caps = any(clause.startswith(_CAPPING) for clause in specifier.split(","))
    return specifier if specifier and (caps or not takes_python(specifier, f"{minor}.0")) else None
