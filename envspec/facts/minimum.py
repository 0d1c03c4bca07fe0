"""A target's minimum: its compute capabilities, and the oldest driver that it starts with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import is_integrated, order, sm_of
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
    own = capabilities(names)
    branch = min((known[c].first_driver or 0 for c in own if c in known), default=0)
    if compatible and own and all(map(is_integrated, own)):
        return str(max(branch, toolkits.branch(compatible)))
    return str(branch) if compatible and branch > numbers(compatible)[0] else compatible
