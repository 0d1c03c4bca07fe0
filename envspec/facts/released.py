"""Release dates of the torch family, for `exclude-newer` on indexes that have no dates."""

from __future__ import annotations

from functools import cache

from envspec.facts.tables import read


def date(project: str, version: str) -> str | None:
    """Find the day and time (RFC 3339, UTC) of a release; ignores a local part (`+cu126`). None if unknown."""
    return _dates().get((project, version.partition("+")[0]))


@cache
def _dates() -> dict[tuple[str, str], str]:
    return {(row["project"], row["version"]): row["date"] for row in read("released")["releases"]}
