"""The layers of an image's environment, from the bottom, and the packages in each: what moves most lies on top."""

from __future__ import annotations

from envspec.facts.cuda_stack import stack_of
from envspec.lock.model import Pin


def layer_of(pin: Pin) -> str:
    """Name the layer that a package lies in: `conda`; `nvidia` has CUDA's libraries, which are large and rarely move;
    `torch` what moves with it; `source` what is compiled; `rest` everything else."""
    if pin.kind == "conda":
        return "conda"
    return (stack_of(pin.name) or "rest") if pin.is_wheel else "source"
