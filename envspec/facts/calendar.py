"""Packages whose first number is a year of two digits."""

from __future__ import annotations

import re
from functools import cache

from envspec.facts.tables import read

_FOR_CUDA = re.compile(r"-cu\d+")


@cache
def _package_names() -> frozenset[str]:
    return frozenset(row["name"] for row in read("calendar")["packages"])


def counts_years(name: str) -> bool:
    """Say whether the first number of a package's versions (normalised name) is a year of two digits."""
    return _FOR_CUDA.sub("", name) in _package_names()
