"""When a release of the torch family came out: what `exclude-newer` goes by on indexes that don't say."""

from __future__ import annotations

from functools import cache

from envspec.facts.tables import read


def date(project: str, version: str) -> str | None:
    """The day and time (RFC 3339, UTC) of a release; a local part (`+cu126`) is ignored. None when it isn't known."""
    return _dates().get((project, version.partition("+")[0]))


@cache
def _dates() -> dict[tuple[str, str], str]:
    return {(row["project"], row["version"]): row["date"] for row in read("released")["releases"]}
