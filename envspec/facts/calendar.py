"""The promises of a version's numbers: packages that count years, and those whose versions below 1.0 broke users."""

from __future__ import annotations

import re
from functools import cache

from envspec.facts.tables import read
from envspec.packages.version_numbers import numbers_in

_FOR_CUDA = re.compile(r"-cu\d+")


@cache
def _package_names() -> frozenset[str]:
    return frozenset(row["name"] for row in read("calendar")["packages"])


def counts_years(name: str) -> bool:
    """Return whether the first number of a package's versions (normalised name) is a year of two digits."""
    return _FOR_CUDA.sub("", name) in _package_names()


def breaks_below_one(name: str, old: str, new: str) -> tuple[str, ...]:
    """List the changes that broke users of a package (normalised name) in minor versions below 1.0 between releases,
    those behind the old one."""
    before, after = (numbers_in(version.partition("+")[0]) for version in (old, new))
    breaks = []
    # an older edition of the facts has no such rows
    for row in read("calendar").get("breaking", ()):
        if row["name"] == name and (not row["version"] or before < numbers_in(row["version"]) <= after):
            breaks.append(f"{row['version']}: {row['what']}" if row["version"] else row["what"])
    return tuple(breaks)
