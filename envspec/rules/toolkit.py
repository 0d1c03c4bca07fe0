"""Rules for a CUDA toolkit against GPUs: it is too old to support one, or so new that it has dropped it."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import order, sm_of
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case, Problem


def problems(case: Case) -> Iterator[Problem]:
    """Find what is wrong between a target's CUDA and its GPUs, torch aside."""
    if case.cuda is None:
        return
    toolkit = toolkits.toolkit(case.cuda)
    if toolkit is None:
        yield _unknown(case.cuda)
        return
    for capability in case.capabilities:
        if toolkit.reaches(capability):
            continue
        name = f"{case.names(capability)} ({sm_of(capability)})"
        known = gpus.capabilities()[capability]
        if order(capability) < order(toolkit.first_capability):
            last = f"; CUDA {known.last_cuda} is the last that supports it" if known.last_cuda else ""
            yield Problem(
                "error", "cuda-dropped-gpu", "cuda", f"CUDA {case.cuda} has dropped {known.architecture}: {name}{last}"
            )
        else:
            first = f"; CUDA {known.first_cuda} is the first that does" if known.first_cuda else ""
            yield Problem("error", "cuda-too-old-for-gpu", "cuda", f"CUDA {case.cuda} doesn't support {name}{first}")


def _unknown(cuda: str) -> Problem:
    known = [toolkit.version for toolkit in toolkits.known()]
    if numbers(cuda) > numbers(known[-1]):
        return Problem(
            "info",
            "cuda-newer-than-tables",
            "cuda",
            f"CUDA {cuda} is newer than any that envspec knows (up to {known[-1]})",
        )
    near = min(known, key=lambda v: abs(_linear(v) - _linear(cuda)))
    return Problem("error", "no-such-cuda", "cuda", f"there is no CUDA {cuda}", f"nearest: CUDA {near}")


def _linear(version: str) -> int:
    major, minor = numbers(version)[:2]
    return major * 20 + minor
