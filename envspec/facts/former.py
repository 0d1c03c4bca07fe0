"""Former values of corrected tables: values that a lock may still hold, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.facts import gpus
from envspec.facts.compute_capability import order, sm_of
from envspec.facts.minimum import architectures, capabilities, driver_floor
from envspec.facts.tables import read


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
