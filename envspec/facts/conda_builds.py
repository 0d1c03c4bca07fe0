"""conda-forge's pytorch builds, which are compiled for other architectures than the wheels."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from envspec.facts.tables import read, records
from envspec.packages.version_numbers import numbers


class CondaBuild(Struct, frozen=True, rename={"version": "pytorch", "arm_variant": "arm-variant", "sources": "source"}):
    """A build of pytorch. `cuda` is None for the CPU build; `arm_variant` is "tegra" for Jetson's own."""

    version: str
    platform: str
    cuda: str | None
    arm_variant: str | None
    sm: tuple[str, ...]
    ptx: tuple[str, ...]
    sources: tuple[str, ...]
    glibc: str = "2.17"

    @property
    def variant(self) -> str:
        """The start of the build string: `cuda129` or `cpu`."""
        return "cuda" + self.cuda.replace(".", "") if self.cuda else "cpu"

    def admits(self, cuda: str) -> bool:
        """Return whether the build runs with this `cuda-version`: its own major, and its own minor or a higher one."""
        return (
            self.cuda is not None and numbers(self.cuda)[0] == numbers(cuda)[0] and numbers(self.cuda) <= numbers(cuda)
        )


@cache
def _builds() -> tuple[CondaBuild, ...]:
    return records(CondaBuild, read("conda_builds")["builds"])


def versions() -> tuple[str, ...]:
    """The pytorch releases conda-forge has built, oldest first."""
    return tuple(dict.fromkeys(build.version for build in _builds()))


def builds(version: str | None = None, cuda: str | None = None, platform: str | None = None) -> tuple[CondaBuild, ...]:
    """List the builds that match every given value. `cuda` selects those that run with this `cuda-version`."""
    return tuple(
        build
        for build in _builds()
        if version in (None, build.version)
        and platform in (None, build.platform)
        and (cuda is None or build.admits(cuda))
    )
