"""The hardware that a spec is judged on: a machine's, or one that somebody describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envspec.doctor.machine import Machine


@dataclass(frozen=True)
class Hardware:
    """What a spec is judged on. What is None or empty is taken from each target.

    gpus      names that `envspec.facts.gpus.find` knows
    platform  None: every target's own
    pythons   versions with an interpreter here ("3.12"); None: not a matter
    """

    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str | None = None
    platform: str | None = None
    pythons: tuple[str, ...] | None = None


def hardware_of(machine: Machine) -> Hardware:
    """What a machine is, as far as a spec is judged by it."""
    from envspec.doctor.nvidia import known_as

    names = (known_as(device) for device in machine.nvidia.devices)
    driver = machine.nvidia.driver
    return Hardware(
        gpus=tuple(dict.fromkeys(name for name in names if name)),
        driver=driver if driver and driver.replace(".", "").isdecimal() else None,
        glibc=machine.glibc,
        platform=machine.platform,
        pythons=tuple(dict.fromkeys((*machine.pythons.found, _minor(machine.pythons.version)))),
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
