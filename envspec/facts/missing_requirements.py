"""Requirements that published METADATA of the torch family leaves out.

A package's requirement of torch must bound the resolution. Where its METADATA has none, the solver pairs the newest
companion with any torch, and the pair fails at import. So the solver and the edges of a lock treat the missing line as
published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from envspec.facts import torch_builds
from envspec.facts.tables import read, words


@dataclass(frozen=True)
class MissingRequirement:
    """A requirement (PEP 508) that `package` in these `versions` also has, besides those of its METADATA (`published`).

    A spec switches it off by `name`.
    """

    name: str
    package: str
    versions: tuple[str, ...]
    published: tuple[str, ...]
    requirement: str
    reason: str
    sources: tuple[str, ...]

    def concerns(self, package: str, version: str) -> bool:
        """Say whether the METADATA of a package (normalised name) in a version, whatever its local part, lacks it."""
        return package == self.package and version.partition("+")[0] in self.versions

    def builds(self) -> tuple[str, ...]:
        """The versions without a local part, and with each one that a PyTorch build can have."""
        locals_ = ("", *(f"+{variant}" for variant in _variants()))
        return tuple(f"{version}{local}" for version in self.versions for local in locals_)


@cache
def missing_requirements() -> tuple[MissingRequirement, ...]:
    """Every missing requirement in the table."""
    return tuple(
        MissingRequirement(
            row["name"],
            row["package"],
            tuple(row["versions"]),
            tuple(row["published"]),
            row["requirement"],
            row["reason"],
            words(row["source"]),
        )
        for row in read("missing_requirements")["requirements"]
    )


def left_out(package: str, version: str, known: Iterable[MissingRequirement]) -> tuple[str, ...]:
    """List the Requires-Dist lines to add to those of a package (normalised name) in a version."""
    return tuple(missing.requirement for missing in known if missing.concerns(package, version))


@cache
def _variants() -> tuple[str, ...]:
    return tuple(sorted({build.variant for build in torch_builds.builds()}))
