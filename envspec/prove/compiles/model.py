"""Compiled programs and their results, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envspec.facts.compute_capability import read_capability, sass_runs

CompilerName = Literal["ptxas", "nvrtc", "nvjitlink"]


@dataclass(frozen=True)
class Compiler:
    """A compiler in a wheel of the lock.

    package  with `version` and `file`, whose wheel it is
    members  its files in the wheel, the one that is run or loaded first
    """

    name: CompilerName
    package: str
    version: str
    file: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Compilation:
    """One kernel compiled for one architecture.

    release  what the compiler says that it is ("12.8"), None where it wasn't heard
    gpu      the target's architecture: "sm_90"
    asked    what the compiler was asked for: "sm_90a" where triton asks so
    made     the architecture in the machine code, read back from it; None where there is none
    error    what the compiler said instead
    """

    compiler: Compiler
    release: str | None
    gpu: str
    asked: str
    made: str | None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the machine code is what was asked for, and runs on the GPU."""
        return self.made == self.asked and sass_runs(
            read_capability(self.made), read_capability(self.gpu), self.release
        )


@dataclass(frozen=True)
class Compiled:
    """The output of a target's compilers. `absent` are the names of those that none of its wheels brings."""

    target: str
    compilations: tuple[Compilation, ...]
    absent: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether something was compiled, and all of it is right."""
        return bool(self.compilations) and all(one.ok for one in self.compilations)
