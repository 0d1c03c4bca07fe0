"""What the tables say of a target as a whole: its compute capabilities, and the oldest driver that starts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import order, sm_of
from envspec.packages.version_numbers import numbers


def capabilities(names: Iterable[str]) -> list[str]:
    """The compute capabilities ("9.0") of GPUs, oldest first; GPUs that no table knows are left out."""
    return sorted({gpu.capability for name in names for gpu in gpus.find(name)}, key=order)


def architectures(names: Iterable[str]) -> tuple[str, ...]:
    """The same as "sm_90": what a lock says of a target's GPUs."""
    return tuple(map(sm_of, capabilities(names)))


def driver_floor(cuda: str | None, platform: str, names: Sequence[str]) -> str | None:
    """The oldest driver with which any of these GPUs runs this CUDA: below it nothing of a target can start.

    CUDA's floor of minor-version compatibility, or the branch ("570") that first knew one of the GPUs where that is
    newer. None for a CPU target, and for an unknown CUDA or platform.
    """
    if cuda is None:
        return None
    compatible = toolkits.driver_floor(cuda, platform)
    known = gpus.capabilities()
    branch = min((known[c].first_driver or 0 for c in capabilities(names) if c in known), default=0)
    return str(branch) if compatible and branch > numbers(compatible)[0] else compatible
