"""Packages that decode or encode video on the GPU, for which containers need the driver's libraries for video."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache

from envspec.facts.tables import read


@cache
def _patterns() -> tuple[str, ...]:
    return tuple(row["name"] for row in read("video")["packages"])


def use_video(names: Iterable[str]) -> bool:
    """Say whether any of these packages (normalised names) does."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in _patterns())
