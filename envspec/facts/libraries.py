"""Architectures compiled into the CUDA libraries beside torch (cuDNN, NCCL, torchvision, torchaudio)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from envspec.facts.tables import read, words
from envspec.packages.version_numbers import numbers


@dataclass(frozen=True)
class LibraryWheel:
    """A wheel on PyPI and the architectures in it. `variant` is the CUDA it was built for, where the wheel says so."""

    package: str
    version: str
    variant: str | None
    sm: tuple[str, ...]
    ptx: tuple[str, ...]
    file: str
    sha256: str
    sources: tuple[str, ...]


@cache
def library_wheels() -> tuple[LibraryWheel, ...]:
    """Every library in the tables, by package and version."""
    return tuple(
        LibraryWheel(
            row["package"],
            row["version"],
            row.get("variant"),
            words(row["sm"]),
            words(row.get("ptx")),
            row["file"],
            row["sha256"],
            words(row["source"]),
        )
        for row in read("libraries")["libraries"]
    )


PLATFORM = "linux-64"
"""The platform whose wheels the rows were read from: another's may hold code for other GPUs. aarch64's cuDNN 9.13 has
sm_110, for Thor, and x86_64's hasn't."""


def library(package: str, version: str, platform: str) -> LibraryWheel | None:
    """Find the row of this release, or of the nearest older one in the tables. None if there is neither, and
    on platforms of which no file was read."""
    if platform != PLATFORM:
        return None
    try:
        wanted = numbers(version.split("+")[0])
    except ValueError:
        return None
    older = [lib for lib in of(package) if numbers(lib.version) <= wanted]
    return older[-1] if older else None


def of(package: str) -> tuple[LibraryWheel, ...]:
    """List the rows of a package, oldest first."""
    return tuple(
        sorted((lib for lib in library_wheels() if lib.package == package), key=lambda lib: numbers(lib.version))
    )
