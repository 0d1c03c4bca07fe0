"""This machine, as far as it decides which targets run on it."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter
from envspec.prove.doctor.fits import LocalMachine


def this_machine(*, without_gpu: bool = False, contained: bool = False) -> LocalMachine:
    """This machine's facts that decide what it can run. Only the search for Pythons starts programs."""
    from envspec.prove.doctor.gather import gather_hardware

    machine = gather_hardware(os.environ)
    devices = machine.nvidia.devices if not machine.nvidia.hidden else ()
    return LocalMachine(
        platform=machine.platform,
        glibc=machine.glibc,
        has_python=_has_python,
        has_conda=find_spec("rattler") is not None,
        capabilities=tuple(device.capability for device in devices if device.capability),
        driver=machine.nvidia.driver,
        without_gpu=without_gpu,
        contained=contained,
    )


@cache
def _has_python(version: str) -> bool:
    try:
        return find_interpreter(version, os.environ).is_file()
    except ToolError:
        return False
