"""An inspection as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from envspec.binaries.library import Inspection, Library
from envspec.facts.compute_capability import Architecture


@dataclass(frozen=True)
class QueriedGpu:
    """A GPU that the user asks about: its name as given, and its compute capability as an architecture."""

    name: str
    architecture: Architecture

    def __str__(self) -> str:
        capability = self.architecture.capability
        return f"compute capability {capability}" if self.name == capability else f"{self.name} ({capability})"


def without_code_for(inspection: Inspection, gpu: QueriedGpu) -> tuple[str, ...]:
    """List the paths of the libraries without any module that the GPU can use, but for those that only profile."""
    judged = (lib for lib in inspection.libraries if not lib.profiles)
    return tuple(lib.path for lib in judged if lib.coverage(gpu.architecture).verdict == "no")


def report(inspection: Inspection, gpus: Sequence[QueriedGpu] = ()) -> dict[str, Any]:
    """Turn the inspection and its coverage of each GPU into plain values."""
    return {**vars(inspection), "libraries": [_library(library, gpus) for library in inspection.libraries]}


def _library(library: Library, gpus: Sequence[QueriedGpu]) -> dict[str, Any]:
    return {
        "path": library.path,
        "size": library.size,
        "files": library.files,
        "modules": library.module_count,
        "complete": library.complete,
        **library.counts(),
        "gpus": [] if library.profiles else [_gpu(library, gpu) for gpu in gpus],
    }


def _gpu(library: Library, gpu: QueriedGpu) -> dict[str, Any]:
    coverage = library.coverage(gpu.architecture)
    named = {"gpu": gpu.name, "capability": gpu.architecture.capability}
    return {**named, "verdict": coverage.verdict, **asdict(coverage)}
