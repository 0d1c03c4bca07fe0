"""The machines that a target is for, as the choice of variants sees them."""

from __future__ import annotations

from envspec.facts import drivers, minimum, toolkits
from envspec.lock.model import TargetInputs
from envspec.packages.variant_choice import Machine


def machine_of(target: TargetInputs, versions: tuple[tuple[str, str], ...] = ()) -> Machine:
    """Give what a target says of its machines. `versions` are those of the packages that builds are made against."""
    return Machine(
        platform=target.platform,
        python=target.python,
        glibc=target.glibc,
        cuda=target.cuda,
        driver_cuda=_cuda_of(target.driver, target.platform) if target.driver else None,
        capabilities=tuple(minimum.capabilities(target.gpus)) if target.cuda else (),
        versions=versions,
    )


def _cuda_of(driver: str, platform: str) -> str | None:
    """Find the newest CUDA that a driver was made for."""
    own = drivers.platform_of(driver, platform)
    fitting = (one for one in toolkits.known() if (floor := one.native(own)) and drivers.reaches(driver, floor))
    return max((one.version for one in fitting), key=_order, default=None)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
