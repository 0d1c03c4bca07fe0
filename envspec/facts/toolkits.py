"""CUDA toolkits and drivers: which run with each other, and the GPUs that a toolkit compiles for."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from envspec.facts.compute_capability import covers
from envspec.facts.tables import read, records
from envspec.packages.version_numbers import numbers

# NVIDIA's driver versions: branches, and the numbers that Windows' and Jetson's drivers have.
#
# Linux' branches are multiples of five (450 to 610: the toolkits' own drivers in data/toolkits.toml). Windows'
# versions count on within a branch: 526.98, 527.41, 528.33 and 529.x are of R525, 551.61 to 553.x of R550 (the same
# table's column for Windows; NVIDIA's release notes name R525 for them). Under WSL the driver is Windows', and
# programs see its number. A Jetson's driver comes with its JetPack and says only its branch: "580.00" with JetPack
# 7.0, which runs CUDA 13.0 whose floor is 580.65.06 elsewhere.

_FIRST_REGULAR = 450
"""Older branches had other numbers (396, 418)."""


def branch(driver: str) -> int:
    """Give the branch of a driver: 525 of "525.60.13", and of Windows' "528.33"."""
    first = numbers(driver)[0]
    return first - first % 5 if first >= _FIRST_REGULAR else first


def is_windows(driver: str) -> bool:
    """Return whether only a driver for Windows has this number. Some numbers are of both: then it says False."""
    return numbers(driver)[0] != branch(driver)


def platform_of(driver: str | None, platform: str) -> str:
    """Give the platform whose drivers a number is of: "win-64" under WSL, where the target is for Linux."""
    return "win-64" if driver and is_windows(driver) else platform


def reaches(driver: str, lower_bound: str, *, integrated: bool = False) -> bool:
    """Return whether a driver is as new as the oldest that is allowed. A Jetson's tells only its branch."""
    if integrated:
        return branch(driver) >= branch(lower_bound)
    return numbers(driver) >= numbers(lower_bound)


_COLUMNS = {
    **{"native_linux": "linux", "native_windows": "windows"},
    **{"compatible_linux": "compat-linux", "compatible_windows": "compat-windows"},
    **{"capabilities": "sm", "forward_branches": "forward-branches", "sources": "source"},
}


class Toolkit(Struct, frozen=True, rename=_COLUMNS):
    """A CUDA toolkit (`12.8`). Drivers are full versions; None where NVIDIA names none.

    native_*          the toolkit's own first driver: everything works
    compatible_*      minor-version compatibility: runs from here on, without features that need a newer driver
    capabilities      what it compiles for, oldest first
    forward_branches  data-centre driver branches below `compatible_linux` (or below the native one) on which NVIDIA's
                      images run it with the cuda-compat package; empty where none is known, which says nothing
    """

    version: str
    native_linux: str | None
    native_windows: str | None
    compatible_linux: str
    compatible_windows: str | None
    capabilities: tuple[str, ...]
    forward_branches: tuple[int, ...]
    sources: tuple[str, ...]

    @property
    def major(self) -> int:
        return numbers(self.version)[0]

    @property
    def first_capability(self) -> str:
        return self.capabilities[0]

    def native(self, platform: str) -> str | None:
        """The first driver with full support on a platform (`linux-64`)."""
        return self.native_windows if platform.startswith("win") else self.native_linux

    def compatible(self, platform: str) -> str | None:
        """The minor-version-compatibility floor on a platform."""
        return self.compatible_windows if platform.startswith("win") else self.compatible_linux

    def reaches(self, capability: str) -> bool:
        """Return whether code that the toolkit compiles runs on this capability."""
        return covers(self.capabilities, capability, self.version)

    @property
    def require_cuda(self) -> str:
        """`NVIDIA_REQUIRE_CUDA` for an image whose wheels carry this CUDA: a driver of this CUDA, or any from the
        minor-version floor on (space is OR, comma is AND)."""
        return f"cuda>={self.version} driver>={self.compatible_linux}"


@cache
def cuda_releases() -> tuple[Toolkit, ...]:
    """Every toolkit, oldest first."""
    return records(Toolkit, read("toolkits")["toolkits"])


def toolkit(version: str) -> Toolkit | None:
    """Find the toolkit of a CUDA version (`"12.8"`, `"12.8.1"`), or None."""
    minor = ".".join(version.split(".")[:2])
    return next((release for release in cuda_releases() if release.version == minor), None)


def native_or_older(toolkit: Toolkit, platform: str) -> str | None:
    """Give a toolkit's own first driver. Where NVIDIA names none, that of the newest before it, than which its own is
    no older; None where no toolkit has one."""
    if own := toolkit.native(platform):
        return own
    upto = cuda_releases()[: cuda_releases().index(toolkit)]
    return next((native for older in reversed(upto) if (native := older.native(platform))), None)


def with_forward_compatibility() -> tuple[Toolkit, ...]:
    """List the toolkits of which the table knows branches for forward compatibility, oldest first."""
    return tuple(release for release in cuda_releases() if release.forward_branches)


def of_driver(driver: str, platform: str) -> str | None:
    """Give the newest CUDA that a driver is new enough for by itself; None for one that is older than all."""
    own = ((release.version, release.native(platform)) for release in cuda_releases())
    return next((version for version, native in reversed([*own]) if native and reaches(driver, native)), None)


def driver_floor(cuda: str, platform: str = "linux-64") -> str | None:
    """Find the oldest driver that runs this CUDA by minor-version compatibility; None if either is unknown."""
    release = toolkit(cuda)
    return release.compatible(platform) if release else None


def why_unknown(cuda: str) -> str:
    """Explain why a CUDA is in no table: it is older than they are, or was never published."""
    first = cuda_releases()[0].version
    if numbers(cuda) < numbers(first):
        return f"CUDA {cuda} is older than any that envspec knows (from {first})"
    return f"there is no CUDA {cuda}"
