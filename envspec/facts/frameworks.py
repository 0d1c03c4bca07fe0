"""Frameworks of which PyPI's name alone gives a CPU build, and what brings the CUDA one."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from envspec.facts.tables import read, records

LEADING = frozenset({"torch", "jax", "tensorflow"})
"""The frameworks that come before other requirements of a spec which they don't require, nor are required by."""


class Framework(Struct, frozen=True, rename={"sources": "source"}):
    """A framework (normalised name). `backends` and `ask` have `##` where the CUDA major stands.

    backends   packages of which one brings CUDA; none where PyPI has another project of its name
    ask        the requirement that brings it, without a version; None where none on PyPI does
    otherwise  what to do then
    what       the build of PyPI's package of its name, where that is no build for CPUs
    """

    package: str
    backends: tuple[str, ...]
    ask: str | None
    otherwise: str | None
    what: str | None
    sources: tuple[str, ...]

    def backends_for(self, major: str) -> frozenset[str]:
        """Name the packages of which one brings the CUDA of a major."""
        return frozenset(backend.replace("##", major) for backend in self.backends)


@cache
def frameworks() -> tuple[Framework, ...]:
    """Every framework in the table, by name."""
    return records(Framework, read("frameworks")["frameworks"])


class WantedDriver(Struct, frozen=True, rename={"sources": "source"}):
    """A framework that wants a driver of a branch or a newer one, for a CUDA major. `package` (its name without a CUDA)
    in these `versions` tells it."""

    framework: str
    package: str
    versions: str
    cuda: str
    driver: int
    sources: tuple[str, ...]


@cache
def wanted_drivers() -> tuple[WantedDriver, ...]:
    """Every framework whose driver the table has."""
    rows = read("frameworks")["drivers"]
    return records(WantedDriver, ({**row, "driver": int(row["driver"])} for row in rows))
