"""torch's binary neighbours: packages whose wheels were compiled for one torch or one CUDA, and don't say so."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import Struct
from packaging.specifiers import SpecifierSet

from envspec.facts.tables import read, records


class Neighbour(Struct, frozen=True, rename={"sources": "source"}):
    """The torch, CUDA and Pythons of a package's wheels on PyPI (normalised name), in these `versions` (a specifier).

    release    the newest of them
    platforms  those whose wheels it speaks of
    torch      a specifier, None where they don't depend on torch
    cuda       the CUDA majors that they load, empty where they load none
    without    what happens beside another torch or CUDA; `partly` where they import all the same
    otherwise  what to do where no release fits
    """

    package: str
    versions: str
    release: str
    platforms: tuple[str, ...]
    torch: str | None
    cuda: tuple[str, ...]
    without: str
    otherwise: str | None
    sources: tuple[str, ...]
    partly: bool = False

    def fits(self, torch: str | None, cuda: str | None) -> bool:
        """Return whether its wheels work beside a torch release, and in a target of a CUDA major. None: there is
        none."""
        return self.fits_torch(torch) and self.fits_cuda(cuda)

    def fits_torch(self, torch: str | None) -> bool:
        return self.torch is None or torch is None or _admits(self.torch, torch)

    def fits_cuda(self, cuda: str | None) -> bool:
        return not self.cuda or cuda is None or cuda in self.cuda


@cache
def neighbours() -> tuple[Neighbour, ...]:
    """Every row of the table, those of a package from old to new."""
    shared = _packages()
    return records(Neighbour, ({**shared[row["package"]], **row} for row in read("neighbours")["neighbours"]))


@cache
def _packages() -> dict[str, dict[str, Any]]:
    return {row["package"]: row for row in read("neighbours")["packages"]}


def of_release(package: str, version: str, platform: str) -> tuple[Neighbour, ...]:
    """Find the rows of a package (normalised name) in a version without a local part, on a platform; none beyond the
    table's reach."""
    return tuple(row for row in of_package(package, platform) if _admits(row.versions, version))


def nearest(package: str, torch: str | None, cuda: str | None, platform: str) -> Neighbour | None:
    """Find the newest row of a package that fits a torch release and a CUDA major, all rows of its release asked."""
    for row in reversed(of_package(package, platform)):
        if all(other.fits(torch, cuda) for other in of_release(package, row.release, platform)):
            return row
    return None


def partly_without(package: str) -> str | None:
    """Name the missing part of a package (normalised name) that imports all the same beside another torch or CUDA,
    whatever its wheels note. None for a package that fails there."""
    row = _packages().get(package, {})
    return str(row["without"]) if row.get("partly") else None


def cxx11abi(torch: str) -> bool | None:
    """Return whether torch's Linux wheels of a release have the newer C++ strings (`_GLIBCXX_USE_CXX11_ABI`). None
    where that depends on the build."""
    return next((bool(row["newer"]) for row in read("neighbours")["cxx11abi"] if _admits(row["torch"], torch)), None)


@cache
def of_package(package: str, platform: str) -> tuple[Neighbour, ...]:
    """List the rows of a package on a platform, from old to new."""
    return tuple(row for row in neighbours() if row.package == package and platform in row.platforms)


@cache
def _admits(specifier: str, version: str) -> bool:
    return SpecifierSet(specifier).contains(version.partition("+")[0], prereleases=True)
