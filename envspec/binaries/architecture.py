"""Device code as binaries hold it, and which GPU can load it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from envspec.facts.compute_capability import Architecture, ptx_runs, sass_runs


class Kind(Enum):
    """What a piece of device code is. `LTO` is NVVM IR for link-time optimisation: no driver runs it as it is."""

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
        """Whether a GPU of this compute capability can load the code; PTX is compiled by the driver on loading.

        `cuda` is the version that compiled it: what `compute_capability` asks of it, None where nobody knows.
        """
        if self.kind is Kind.SASS:
            return sass_runs(self.architecture, gpu, cuda)
        return self.kind is Kind.PTX and ptx_runs(self.architecture, gpu)
