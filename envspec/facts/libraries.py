"""Architectures compiled into the CUDA libraries beside torch (cuDNN, NCCL, torchvision, torchaudio)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from envspec.facts.tables import read, words
from envspec.packages.version_numbers import numbers


@dataclass(frozen=True)
class LibraryWheel:
    """A wheel on PyPI and what was found in it. `variant` is the CUDA it was built for, where the wheel says so."""

    package: str
    version: str
    variant: str | None
    sm: tuple[str, ...]
    ptx: tuple[str, ...]
    file: str
    sha256: str
    sources: tuple[str, ...]


@cache
def known() -> tuple[LibraryWheel, ...]:
    """Every library that was read, by package and version."""
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


def library(package: str, version: str) -> LibraryWheel | None:
    """What was found in this release, or in the nearest older one that was read; None when there is none."""
    try:
        wanted = numbers(version.split("+")[0])
    except ValueError:
        return None
    older = [lib for lib in known() if lib.package == package and numbers(lib.version) <= wanted]
    return max(older, key=lambda lib: numbers(lib.version), default=None)
