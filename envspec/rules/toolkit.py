"""Rules for a CUDA toolkit against GPUs: it is too old to support one, or so new that it has dropped it."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.errors import Way
from envspec.base.finding import Finding
from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import order, sm_of
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case


def problems(case: Case) -> Iterator[Finding]:
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
            yield Finding(
                "error",
                "cuda-dropped-gpu",
                f"CUDA {case.cuda} has dropped {known.architecture}: {name}{last}",
                key="cuda",
            )
        else:
            first = f"; CUDA {known.first_cuda} is the first that does" if known.first_cuda else ""
            yield Finding(
                "error", "cuda-too-old-for-gpu", f"CUDA {case.cuda} doesn't support {name}{first}", key="cuda"
            )


def _unknown(cuda: str) -> Finding:
    known = [toolkit.version for toolkit in toolkits.cuda_releases()]
    if numbers(cuda) > numbers(known[-1]):
        return Finding(
            "info",
            "cuda-newer-than-tables",
            f"CUDA {cuda} is newer than any that envspec knows (up to {known[-1]})",
            key="cuda",
        )
    near = min(known, key=lambda v: abs(_linear(v) - _linear(cuda)))
    ways = (Way(f"CUDA {near}", near=True, cuda=near),)
    return Finding("error", "no-such-cuda", f"there is no CUDA {cuda}", key="cuda", ways=ways)


def _linear(version: str) -> int:
    major, minor = numbers(version)[:2]
    return major * 20 + minor
