"""Architectures compiled into the CUDA libraries beside torch (cuDNN, NCCL, torchvision, torchaudio)."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from envspec.facts.tables import read, records
from envspec.facts.wheels import platform_of
from envspec.packages.version_numbers import numbers


class LibraryWheel(Struct, frozen=True, rename={"sources": "source"}):
    """A wheel on PyPI and the architectures in it. `variant` is the CUDA it was built for, where the wheel says so."""

    package: str
    version: str
    variant: str | None
    sm: tuple[str, ...]
    ptx: tuple[str, ...]
    file: str
    sha256: str
    sources: tuple[str, ...]

    @property
    def platform(self) -> str | None:
        """The platform of its file: another's may hold code for other GPUs. aarch64's cuDNN 9.13 has sm_110, for Thor,
        and x86_64's hasn't."""
        return platform_of(self.file)


@cache
def library_wheels() -> tuple[LibraryWheel, ...]:
    """Every library in the tables, by package and version."""
    return records(LibraryWheel, (*read("libraries")["libraries"], *read("libraries")["aarch64"]))


def library(package: str, version: str, platform: str) -> LibraryWheel | None:
    """Find the row of this release, or of the nearest older one in the tables. None if there is neither, and
    on platforms of which no file was read."""
    try:
        required = numbers(version.split("+")[0])
    except ValueError:
        return None
    older = [lib for lib in of(package, platform) if numbers(lib.version) <= required]
    return older[-1] if older else None


@cache
def of(package: str, platform: str) -> tuple[LibraryWheel, ...]:
    """List the rows of a package on a platform, oldest first."""
    wheels = (lib for lib in library_wheels() if lib.package == package and lib.platform == platform)
    return tuple(sorted(wheels, key=lambda lib: numbers(lib.version)))
