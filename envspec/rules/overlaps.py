"""Rules for packages that install the same modules: the one that is installed last overwrites the other's files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envspec.facts import overlaps
from envspec.rules.case import Problem


def problems(pins: Mapping[str, str]) -> Iterator[Problem]:
    """Find pins that overwrite each other."""
    for row in overlaps.overlaps():
        both = [name for name in row.packages if name in pins]
        if len(both) > 1:
            yield Problem(
                "warning",
                "same-modules",
                "platform",
                f"{' and '.join(both)} both install `{row.module}`: the files of one overwrite the other's",
                f"keep one of them: {row.instead}",
            )
