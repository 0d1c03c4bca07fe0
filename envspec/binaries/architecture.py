"""Pieces of device code in binaries, and the GPUs that can load them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from envspec.facts.compute_capability import Architecture, ptx_runs, sass_runs


class Kind(Enum):
    """A kind of device code. `LTO` is NVVM IR for link-time optimisation, which drivers can't run as it is."""

    SASS = "sass"
    PTX = "ptx"
    LTO = "lto"
    OTHER = "other"


@dataclass(frozen=True)
class Code:
    """One piece of device code inside a module: its kind and the architecture it was compiled for."""

    kind: Kind
    architecture: Architecture

    @property
    def name(self) -> str:
        """`sm_90a` for SASS, `compute_90` for PTX, `lto_90` for LTO IR: the names that nvcc's `-gencode` takes."""
        prefix = {Kind.SASS: "sm", Kind.PTX: "compute", Kind.LTO: "lto", Kind.OTHER: "other"}[self.kind]
        return f"{prefix}_{self.architecture}"

    def runs_on(self, gpu: Architecture, cuda: str | None = None) -> bool:
        """Say whether a GPU of this compute capability can load the code. The driver compiles PTX on loading.

        `cuda` is the version that compiled the code, None if unknown.
        """
        if self.kind is Kind.SASS:
            return sass_runs(self.architecture, gpu, cuda)
        return self.kind is Kind.PTX and ptx_runs(self.architecture, gpu)
