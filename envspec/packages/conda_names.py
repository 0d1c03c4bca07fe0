"""PyPI names of conda packages: from the record's `purls` if it has them, else from parselmouth's table.

parselmouth (prefix.dev, BSD-3-Clause) looks into every conda-forge package for the distributions it installs; pixi uses
the same table. `data/conda_pypi.txt` is the table of the date it names, with its licence beside it;
`python -m tools.refresh conda-names` makes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cache
from importlib import resources

from envspec.packages.names import conda_name
from envspec.packages.requirement import canonical_name

SAME = "="
"""How the table writes that PyPI has the same name."""
_CORRECTIONS = {
    # the CUDA build holds the plugins too, and the table names one distribution a package
    "jaxlib": "jaxlib",
}


def pypi_names(name: str, depends: Iterable[str], purls: Iterable[str] = ()) -> tuple[str, ...]:
    """List the PyPI names (normalised) of a conda package's distributions, sorted; empty if it installs none.

    A package that isn't in the table yet counts under its own name if it depends on Python.
    """
    named = {_of_purl(purl) for purl in purls if purl.startswith("pkg:pypi/")}
    if named:
        return tuple(sorted(named))
    if name in _CORRECTIONS:
        return (_CORRECTIONS[name],)
    found = _in_table(name)
    if found is not None:
        return (canonical_name(name),) if found == SAME else (found,) if found else ()
    return untabled_names(name, depends)


def untabled_names(name: str, depends: Iterable[str]) -> tuple[str, ...]:
    """List the PyPI names of a package that the table doesn't have, or didn't have yet when it was locked."""
    return (canonical_name(name),) if any(conda_name(depend) == "python" for depend in depends) else ()


def _of_purl(purl: str) -> str:
    return canonical_name(purl.removeprefix("pkg:pypi/").partition("@")[0].partition("?")[0])


def _in_table(name: str) -> str | None:
    """Look up a conda package in the table: "=", a PyPI name, "" for none; None if the package isn't in the table."""
    lines = _lines()
    at = bisect_left(lines, name, key=_name_on)
    known = at < len(lines) and _name_on(lines[at]) == name
    return lines[at].partition(" ")[2] if known else None


@cache
def _lines() -> list[str]:
    """The table's lines, sorted by conda's name; the header's begin with #, which sorts before every name."""
    return resources.files("envspec.packages").joinpath("data/conda_pypi.txt").read_text(encoding="utf-8").splitlines()


def _name_on(line: str) -> str:
    return line.partition(" ")[0]
