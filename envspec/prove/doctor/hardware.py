"""The hardware that a spec is judged on: this machine's, or hardware that the user describes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envspec.prove.doctor.machine import Machine


@dataclass(frozen=True)
class Hardware:
    """The hardware that a spec is judged on. A value that is None or empty comes from each target.

    gpus      names that `envspec.facts.gpus.find` knows
    platform  None: every target's own
    pythons   versions with an interpreter here ("3.12"); None: not judged
    """

    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str | None = None
    platform: str | None = None
    pythons: tuple[str, ...] | None = None


def hardware_of(machine: Machine) -> Hardware:
    """Take the hardware of a machine that a spec is judged on."""
    from envspec.prove.doctor.nvidia import known_as

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
