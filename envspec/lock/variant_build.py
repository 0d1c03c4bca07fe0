"""The machines of a target, and the build of a variant: its CUDA and GPUs by its label and properties."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envspec.facts import minimum, toolkits
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Pin, TargetInputs, WheelVariant
from envspec.packages.variant_choice import CUDA_LOWER, SM_ARCH, TargetMachine
from envspec.packages.variants import NVIDIA, Property, read_property
from envspec.packages.version_numbers import numbers

_CUDA = re.compile(r"(?<![a-z0-9])cu(?:da)?_?([1-9][0-9])[._]?([0-9])?(?![0-9])")
"""cu130, cuda13.0, cu12, torch2.9_cu128"""
_ARCHITECTURE = re.compile(r"([1-9][0-9]{1,2})_(real|virtual)")


def properties_of(variant: WheelVariant) -> tuple[Property, ...]:
    """Read the properties of a locked variant."""
    return tuple(parsed for text in variant.properties if (parsed := read_property(text)) is not None)


def is_for_cpu(variant: WheelVariant) -> bool:
    """Return whether a variant has no code for GPUs, in a release with variants that have some."""
    return NVIDIA in variant.priorities and not any(prop.namespace == NVIDIA for prop in properties_of(variant))


def cuda_of_wheel(variant: WheelVariant) -> str | None:
    """Find the CUDA that a variant was built for ("13.0", or the major alone): by its label, else by the oldest that it
    runs with. None where neither says."""
    own = [prop for prop in properties_of(variant) if prop.namespace == NVIDIA]
    if not own:
        return None
    label = _CUDA.search(variant.label)
    if label:
        return f"{label[1]}.{label[2]}" if label[2] else label[1]
    return next((prop.value for prop in own if prop.feature == CUDA_LOWER), None)


def built_version(pin: Pin) -> str:
    """Give a pin's version as that of a classic build, with a variant's label as its local part: `+cu130`, `+cpu`."""
    variant = pin.artifact.variant if pin.artifact else None
    if variant is None or "+" in pin.version:
        return pin.version
    if is_for_cpu(variant):
        # of others `cpu-variant` judges the same
        return f"{pin.version}+cpu" if pin.name in FAMILY else pin.version
    cuda = cuda_of_wheel(variant)
    return f"{pin.version}+cu{cuda.replace('.', '')}" if cuda else pin.version


def architectures_of(variant: WheelVariant) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the compute capabilities ("9.0") of which a variant has machine code, and those of its PTX."""
    capabilities: dict[str, list[str]] = {"real": [], "virtual": []}
    for prop in properties_of(variant):
        match = _ARCHITECTURE.fullmatch(prop.value) if (prop.namespace, prop.feature) == (NVIDIA, SM_ARCH) else None
        if match:
            capabilities[match[2]].append(f"{match[1][:-1]}.{match[1][-1]}")
    return tuple(capabilities["real"]), tuple(capabilities["virtual"])


# The machines that a target is for, as the choice of variants sees them.


def machine_of(target: TargetInputs, versions: tuple[tuple[str, str], ...] = ()) -> TargetMachine:
    """Describe the machines of a target. `versions` are those of the packages that builds are made against."""
    return TargetMachine(
        platform=target.platform,
        python=target.python,
        glibc=target.glibc,
        cuda=target.cuda,
        driver_cuda=_cuda_of(target.driver, target.platform) if target.driver else None,
        capabilities=tuple(minimum.capabilities(target.gpus)) if target.cuda else (),
        cpu=target.cpu,
        versions=versions,
    )


def versions_of(pins: Iterable[Pin]) -> tuple[tuple[str, str], ...]:
    """Give the versions of a target's packages, as variants may depend on them."""
    all_pins = tuple(pins)
    conda = {name: pin.version for pin in all_pins if pin.kind == "conda" for name in pin.provides}
    return tuple(sorted({**conda, **{pin.name: pin.version for pin in all_pins if pin.kind == "pip"}}.items()))


def _cuda_of(driver: str, platform: str) -> str | None:
    """Find the newest CUDA that a driver was made for."""
    own = toolkits.platform_of(driver, platform)
    fitting = (
        release
        for release in toolkits.cuda_releases()
        if (lower_bound := release.native(own)) and toolkits.reaches(driver, lower_bound)
    )
    return max((release.version for release in fitting), key=numbers, default=None)
