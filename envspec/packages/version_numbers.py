"""Versions as numbers, for comparing: "12.10" comes after "12.9"."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=1 << 14)
def numbers(version: str) -> tuple[int, ...]:
    """Read a dotted number as integers. Raises ValueError for anything else."""
    return tuple(int(part) for part in version.split("."))


def minor_of(version: str) -> str:
    """Give the first two numbers of a version: "3.12" of "3.12.4"."""
    return ".".join(version.split(".")[:2])


def numbers_in(version: str) -> tuple[int, ...]:
    """Read the integers in a version from outside (of a channel, a driver), whatever stands between them."""
    return tuple(int(part) for part in re.findall(r"\d{1,600}", version))


def code_order(text: str) -> tuple[int, int, str]:
    """Make a sort key of what a wheel holds: "cuda_12.8" before "sm_90" before "sm_100" before "compute_90", words
    last."""
    kind, _, of = text.partition("_")
    return ("cuda", "sm", "compute", kind).index(kind), len(of.rstrip("af")), text
