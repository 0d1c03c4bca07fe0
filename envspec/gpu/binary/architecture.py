"""GPU architectures as compiled code names them, and which code runs on which compute capability."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

EMBEDDED = frozenset({53, 62, 72, 87, 101, 110})
"""Integrated GPUs (Jetson, DRIVE, Thor). Between them and others no SASS is compatible.

Source: CUDA C++ Programming Guide, "Binary Compatibility"; 10.1 and 11.0 are Thor before and after CUDA 13.
"""


class Kind(Enum):
    """What a piece of device code is. `LTO` is NVVM IR for link-time optimisation: no driver runs it as it is."""

    SASS = "sass"
    PTX = "ptx"
    LTO = "lto"
    OTHER = "other"


@dataclass(frozen=True, order=True)
class Architecture:
    """An architecture: `number` is ten times the compute capability (90 is 9.0, 103 is 10.3).

    `feature` is "a" for architecture-specific code (`sm_90a`: 9.0 and nothing else), "f" for family-specific code
    (`sm_100f`: 10.0 and later minors), else "".
    """

    number: int
    feature: str = ""

    @property
    def capability(self) -> str:
        return f"{self.number // 10}.{self.number % 10}"

    def __str__(self) -> str:
        return f"{self.number}{self.feature}"


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

    def runs_on(self, gpu: Architecture) -> bool:
        """Whether a GPU of this compute capability can load the code; PTX is compiled by the driver on loading.

        SASS runs on its own major with an equal or later minor; PTX on every equal or later capability.
        Architecture-specific code of either kind runs on exactly its own, family-specific code within its major.
        Sources: CUDA C++ Programming Guide, "Binary Compatibility" and "Family-Specific Features".
        """
        built = self.architecture
        if self.kind not in (Kind.SASS, Kind.PTX) or built.number > gpu.number:
            return False
        exact = built.feature == "a"
        if self.kind is Kind.SASS:
            exact = exact or built.number in EMBEDDED or gpu.number in EMBEDDED
        if exact:
            return built.number == gpu.number
        same_major = built.number // 10 == gpu.number // 10
        return same_major or (self.kind is Kind.PTX and not built.feature)


def parse_architecture(text: str) -> Architecture | None:
    """`sm_90`, `sm_90a` or `9.0` as an architecture; None for anything else (a product's name, say)."""
    if match := re.fullmatch(r"sm_([1-9]\d{1,2})([af]?)", text, re.IGNORECASE | re.ASCII):
        return Architecture(int(match[1]), match[2].lower())
    if match := re.fullmatch(r"([1-9]\d?)\.(\d)", text, re.ASCII):
        return Architecture(int(match[1]) * 10 + int(match[2]))
    return None
