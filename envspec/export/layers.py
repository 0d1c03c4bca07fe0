"""The layers of an image's environment, from the bottom, and the packages in each: what moves most lies on top."""

from __future__ import annotations

from envspec.facts.cuda_stack import stack_of
from envspec.lock.model import Pin

LAYERS = ("python", "conda", "nvidia", "torch", "source", "rest", "project", "carried")
"""Python, or conda's packages, of which it's one; CUDA's libraries, which are large and rarely move; torch and what
moves with it; what is compiled; everything else; the spec's project; the carried files."""


def layer_of(pin: Pin) -> str:
    """Name the layer of `LAYERS` that a package lies in."""
    if pin.kind == "conda":
        return "conda"
    return (stack_of(pin.name) or "rest") if pin.is_wheel else "source"
