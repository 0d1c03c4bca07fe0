"""Versions as numbers, for comparing: "12.10" comes after "12.9"."""

from __future__ import annotations

import re
from functools import lru_cache

_FINAL = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})*)(?:\+([a-z]+[0-9]{0,9}))?")


@lru_cache(maxsize=1 << 14)
def numbers(version: str) -> tuple[int, ...]:
    """Read a dotted number as integers. Raises ValueError for anything else."""
    return tuple(int(part) for part in version.split("."))


def numbers_in(version: str) -> tuple[int, ...]:
    """Read the integers in a version from outside (of a channel, a driver), whatever stands between them."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def final_release(version: str) -> tuple[tuple[int, ...], str | None] | None:
    """Read a final release as PEP 440 has it, without `packaging`: its numbers, and a local part of one word ("cu128").
    None for any other text."""
    found = _FINAL.fullmatch(version)
    return None if found is None else (numbers(found[1]), found[2])
