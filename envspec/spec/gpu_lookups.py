"""The tables of GPUs and of builds of Python, as functions that a spec's reader is given."""

from __future__ import annotations

from collections.abc import Callable

Capability = Callable[[str], "str | None"]
"""From a GPU's name to its compute capability ("9.0"), None for one that isn't known."""

WrongGpu = Callable[[str], "tuple[str, str] | None"]
"""From a GPU's name to what is wrong with it and what to write instead, None for one that is right."""

NewestPython = Callable[[str, "str | None"], "str | None"]
"""From a range and a moment to the minor version of the newest build before it; None where there is none."""


def no_builds(bound: str, before: str | None) -> None:
    """Know no build of Python: a `NewestPython` that leaves a range its newest minor version."""
    return None


def accept_any_gpu(gpu: str) -> None:
    """Take every name of a GPU as right: a `WrongGpu` where there are no tables."""


def no_facts(gpu: str) -> None:
    """Know no GPU: a `Capability` that leaves the GPUs' own names in the targets' names."""
    return None
