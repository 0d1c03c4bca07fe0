"""The ladder of proof: how far a target can be known to work. A rung is claimed with its record and never without.

locked       its lock is consistent: pins meet every requirement, and the spec's
verified     the indexes publish what it pins, under these hashes
linked       the loader finds the libraries and symbols that its binaries need
compiles     its own compilers make machine code for its GPUs
imports      its packages import, in an environment made from the lock
trained-cpu  the smoke check passed in that environment, on a CPU
trained      the smoke check passed on a GPU of the target
"""

from __future__ import annotations

from collections.abc import Collection

RUNGS = ("locked", "verified", "linked", "compiles", "imports", "trained-cpu", "trained")
"""The least first."""

WORDS = {"trained-cpu": "trained on a CPU", "trained": "trained on its GPU"}
"""Words for a rung, where its name isn't one."""

OF_GPUS = frozenset({"compiles", "trained"})
"""The rungs that a target for CPUs doesn't have."""


def phrase(rung: str) -> str:
    """Describe a rung in words."""
    return WORDS.get(rung, rung)


def rungs_of(*, gpus: bool) -> tuple[str, ...]:
    """Give the rungs that a target has, with GPUs or without."""
    return RUNGS if gpus else tuple(rung for rung in RUNGS if rung not in OF_GPUS)


def highest_rung(proved: Collection[str], *, gpus: bool) -> str | None:
    """Give the highest rung that is proved with all below it. None where the first isn't."""
    highest = None
    for rung in rungs_of(gpus=gpus):
        if rung not in proved:
            break
        highest = rung
    return highest
