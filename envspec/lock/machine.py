"""The machines that a target is for, as the choice of variants sees them."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.facts import minimum, toolkits
from envspec.lock.model import Pin, TargetInputs
from envspec.packages.variant_choice import TargetMachine


def machine_of(target: TargetInputs, versions: tuple[tuple[str, str], ...] = ()) -> TargetMachine:
    """Give what a target says of its machines. `versions` are those of the packages that builds are made against."""
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
    several = tuple(pins)
    conda = {name: pin.version for pin in several if pin.kind == "conda" for name in pin.provides}
    return tuple(sorted({**conda, **{pin.name: pin.version for pin in several if pin.kind == "pip"}}.items()))


def _cuda_of(driver: str, platform: str) -> str | None:
    """Find the newest CUDA that a driver was made for."""
    own = toolkits.platform_of(driver, platform)
    fitting = (
        one for one in toolkits.cuda_releases() if (floor := one.native(own)) and toolkits.reaches(driver, floor)
    )
    return max((one.version for one in fitting), key=_order, default=None)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
