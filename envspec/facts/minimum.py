"""A target's minimum: its compute capabilities, the oldest driver that it starts with, and their former values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import is_integrated, order, sm_of
from envspec.facts.tables import read
from envspec.packages.version_numbers import numbers


def capabilities(names: Iterable[str]) -> list[str]:
    """List the compute capabilities ("9.0") of GPUs, oldest first, without GPUs that are in no table."""
    return sorted({gpu.capability for name in names for gpu in gpus.find(name)}, key=order)


def architectures(names: Iterable[str]) -> tuple[str, ...]:
    """List the same as architectures ("sm_90"), which is how a lock describes a target's GPUs."""
    return tuple(map(sm_of, capabilities(names)))


def driver_floor(cuda: str | None, platform: str, names: Sequence[str]) -> str | None:
    """Find the oldest driver with which any of these GPUs runs this CUDA. With an older one, no part of it starts.

    This is CUDA's floor of minor-version compatibility, or the first branch ("570") that supports one of the GPUs
    where that is newer. Of Jetsons it is a branch, which is all that their drivers tell. None for a CPU target, and for
    an unknown CUDA or platform.
    """
    if cuda is None:
        return None
    compatible = toolkits.driver_floor(cuda, platform)
    known = gpus.capabilities()
    asked = capabilities(names)
    branch = min((known[c].first_driver or 0 for c in asked if c in known), default=0)
    if compatible and asked and all(map(is_integrated, asked)):
        return str(max(branch, toolkits.branch(compatible)))
    return str(branch) if compatible and branch > numbers(compatible)[0] else compatible


# Former values of corrected tables: values that a lock may still hold, and nothing else.


def driver_floors(cuda: str | None, platform: str, names: Iterable[str]) -> tuple[str | None, ...]:
    """List the driver floors that a target may have: today's first, then those that earlier tables gave."""
    asked = tuple(names)
    found = capabilities(asked)
    former = (
        row["was"] or None
        for row in read("former")["floors"]
        if row.get("cuda", cuda) == cuda
        and row.get("platform", platform) == platform
        and ("capability" not in row or row["capability"] in found)
    )
    return (driver_floor(cuda, platform, asked), *(former if cuda else ()))


def architecture_sets(names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """List the architectures that a target's GPUs may have: today's first, then with each of them as it was."""
    asked = tuple(names)
    sets = [architectures(asked)]
    for row in read("former")["architectures"]:
        before = {row["was"] if gpu.name == row["gpu"] else gpu.capability for name in asked for gpu in gpus.find(name)}
        sets.append(tuple(map(sm_of, sorted(before, key=order))))
    return tuple(dict.fromkeys(sets))


def provides(name: str) -> tuple[tuple[str, ...], ...]:
    """List what a conda package was said to provide before."""
    return tuple((row["was"],) if row["was"] else () for row in read("former")["provides"] if row["name"] == name)
