"""Packages whose wheels need a CUDA GPU, where their METADATA doesn't say so; and those that hold code for none."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache

from msgspec import Struct
from packaging.specifiers import SpecifierSet

from envspec.facts.tables import read, records, words


@cache
def _patterns() -> tuple[str, ...]:
    return tuple(row["name"] for row in read("video")["packages"])


def use_video(names: Iterable[str]) -> bool:
    """Return whether any of these packages (normalised names) does."""
    return any(fnmatchcase(name, pattern) for name in names for pattern in _patterns())


@cache
def _host_code() -> frozenset[str]:
    return frozenset(words(read("host_code")["names"]))


def holds_host_code_alone(name: str) -> bool:
    """Return whether the compiled wheels of a package (normalised name) were read, and hold no code for GPUs."""
    return name in _host_code()


class GpuOnly(Struct, frozen=True, rename={"sources": "source"}):
    """A package (normalised name) whose wheels of these `versions` (a specifier) need a GPU on these `platforms`."""

    name: str
    versions: str
    platforms: tuple[str, ...]
    what: str
    instead: str
    sources: tuple[str, ...]


@cache
def gpu_only() -> tuple[GpuOnly, ...]:
    """Every package in the table, by name."""
    return records(GpuOnly, read("gpu_only")["packages"])


def needs_gpu(name: str, version: str, platform: str) -> GpuOnly | None:
    """Find the row of a package in a version on a platform. None if it works without a GPU or isn't in the table."""
    for row in gpu_only():
        if row.name == name and platform in row.platforms:
            return row if SpecifierSet(row.versions).contains(version, prereleases=True) else None
    return None


class OfSource(Struct, frozen=True, rename={"sources": "source"}):
    """A package (normalised name) that is built from source, and the least compute capability that its kernels of these
    `versions` (a specifier) are for."""

    name: str
    versions: str
    least: str
    sources: tuple[str, ...]


@cache
def of_source() -> tuple[OfSource, ...]:
    """Every package in the table, by name."""
    return records(OfSource, read("gpu_only")["of-source"])


def least_capability(name: str, version: str) -> str | None:
    """Give the least compute capability that a package's source is for; None where the table has none."""
    known = (row for row in of_source() if row.name == name)
    return next((row.least for row in known if SpecifierSet(row.versions).contains(version, prereleases=True)), None)
