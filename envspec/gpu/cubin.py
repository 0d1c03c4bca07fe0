"""Which machine code a GPU runs (NVIDIA, CUDA C++ Programming Guide, binary and PTX compatibility)."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.gpu.tables import numbers


def covers(compiled: Iterable[str], capability: str) -> bool:
    """Whether machine code for one of these capabilities runs on this one: same major, lower or equal minor."""
    major, minor = numbers(capability)
    return any(m == major and n <= minor for m, n in map(numbers, compiled))


def can_translate(ptx: Iterable[str], capability: str) -> bool:
    """Whether PTX of one of these capabilities can be compiled for this one when it is loaded: any lower or equal."""
    return any(numbers(p) <= numbers(capability) for p in ptx)
