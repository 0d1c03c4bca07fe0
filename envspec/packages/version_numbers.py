"""Versions as numbers, for comparing: "12.10" comes after "12.9"."""

from __future__ import annotations

import re


def numbers(version: str) -> tuple[int, ...]:
    """A dotted number as integers. Raises ValueError for anything else."""
    return tuple(int(part) for part in version.split("."))


def numbers_in(version: str) -> tuple[int, ...]:
    """The integers in a version that somebody else wrote (a channel, a driver), whatever stands between them."""
    return tuple(int(part) for part in re.findall(r"\d+", version))
