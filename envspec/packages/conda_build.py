"""Conda builds as their records describe them: for which device and which CUDA."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from envspec.packages.names import conda_name
from envspec.packages.version_numbers import numbers_in

_MARKED_CUDA = re.compile(r"cuda(?:(\d\d)(\d)(?!\d))?")
_MARKED_CPU = re.compile(r"(?:^|_)cpu(?:_|\d|$)")
_CUDA_PACKAGES = ("__cuda", "cuda-version", "cudatoolkit")
"""Packages that only CUDA builds depend on (conda-forge's CUDA documentation)."""
_LOWEST = re.compile(r"(?:^|,|=| )>?=? ?(\d+\.\d+)")


@dataclass(frozen=True)
class BuildRecord:
    """One build of a package, as its record describes it."""

    name: str
    version: str
    string: str
    number: int
    subdir: str
    depends: tuple[str, ...]

    @cached_property
    def for_cuda(self) -> bool:
        return bool(_MARKED_CUDA.search(self.string)) or any(
            depend.startswith(_CUDA_PACKAGES) and conda_name(depend) in _CUDA_PACKAGES for depend in self.depends
        )

    @cached_property
    def for_cpu(self) -> bool:
        """Whether the build string names the CPU build."""
        return not self.for_cuda and bool(_MARKED_CPU.search(self.string))

    @cached_property
    def cuda(self) -> str | None:
        """The lowest CUDA ("12.6") that the build runs with, None if the record doesn't say."""
        marked = _MARKED_CUDA.search(self.string)
        if marked and marked[1]:
            return f"{marked[1]}.{marked[2]}"
        for depend in self.depends:
            # `__cuda >=11.8` bounds the driver alone: newer majors answer it too
            if conda_name(depend) in ("cuda-version", "cudatoolkit") and (
                found := _LOWEST.search(" ".join(depend.split()))
            ):
                return found[1]
        return None

    def admits(self, cuda: str) -> bool:
        """Say whether the build runs with this CUDA: its own major, and its own minor or a higher one."""
        return self.for_cuda and (
            self.cuda is None or (major(self.cuda) == major(cuda) and numbers_in(self.cuda) <= numbers_in(cuda))
        )

    def runs_on_python(self, python: str) -> bool:
        """Say whether the build fits this Python: False for one made for another."""
        abi = [depend.split()[1] for depend in self.depends if depend.startswith("python_abi ")]
        return all(version.startswith(f"{python}.") for version in abi)

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.string}"


def foreign_builds(solution: Iterable[BuildRecord], cuda: str) -> list[BuildRecord]:
    """Find the builds of a solution that are for another CUDA major than the asked one."""
    return [build for build in solution if build.cuda and build.for_cuda and major(build.cuda) != major(cuda)]


def major(version: str) -> str:
    """Read the major: "12" of "12.8"."""
    return version.partition(".")[0]
