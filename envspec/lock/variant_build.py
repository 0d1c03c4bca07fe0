"""A variant as a build: what its label and its properties say of CUDA and GPUs."""

from __future__ import annotations

import re

from envspec.lock.model import Pin, WheelVariant
from envspec.packages.variant_choice import CUDA_LOWER, SM_ARCH
from envspec.packages.variants import NVIDIA, Property, read_property

_CUDA = re.compile(r"(?<![a-z0-9])cu(?:da)?_?([1-9][0-9])[._]?([0-9])?(?![0-9])")
"""cu130, cuda13.0, cu12, torch2.9_cu128"""
_ARCHITECTURE = re.compile(r"([1-9][0-9]{1,2})_(real|virtual)")


def properties_of(variant: WheelVariant) -> tuple[Property, ...]:
    """Read the properties of a locked variant."""
    return tuple(one for text in variant.properties if (one := read_property(text)) is not None)


def is_for_cpu(variant: WheelVariant) -> bool:
    """Say whether a variant has nothing for GPUs in a release of which others have."""
    return NVIDIA in variant.priorities and not any(one.namespace == NVIDIA for one in properties_of(variant))


def cuda_of(variant: WheelVariant) -> str | None:
    """Find the CUDA that a variant was built for ("13.0", or the major alone): by its label, else by the oldest that it
    runs with. None where neither says."""
    own = [one for one in properties_of(variant) if one.namespace == NVIDIA]
    if not own:
        return None
    label = _CUDA.search(variant.label)
    if label:
        return f"{label[1]}.{label[2]}" if label[2] else label[1]
    return next((one.value for one in own if one.feature == CUDA_LOWER), None)


def built_version(pin: Pin) -> str:
    """Give a pin's version as that of a classic build, whose local part says what a variant's label does: `+cu130`,
    `+cpu`."""
    variant = pin.artifact.variant if pin.artifact else None
    if variant is None or "+" in pin.version:
        return pin.version
    if is_for_cpu(variant):
        return f"{pin.version}+cpu"
    cuda = cuda_of(variant)
    return f"{pin.version}+cu{cuda.replace('.', '')}" if cuda else pin.version


def architectures_of(variant: WheelVariant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the compute capabilities ("9.0") of which a variant has machine code, and those of its PTX."""
    found: dict[str, list[str]] = {"real": [], "virtual": []}
    for one in properties_of(variant):
        match = _ARCHITECTURE.fullmatch(one.value) if (one.namespace, one.feature) == (NVIDIA, SM_ARCH) else None
        if match:
            found[match[2]].append(f"{match[1][:-1]}.{match[1][-1]}")
    return tuple(found["real"]), tuple(found["virtual"])
