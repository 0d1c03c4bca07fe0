"""All checks of a machine, in reading order."""

from __future__ import annotations

from collections.abc import Callable

from envspec.prove.doctor import nvidia, python, runtimes, system
from envspec.prove.doctor.machine import Machine, Result

Check = Callable[[Machine], Result]

HARDWARE: tuple[Check, ...] = (nvidia.driver, nvidia.nvml, nvidia.devices, system.glibc)
"""The checks that decide whether a spec can run here."""

CPU: tuple[Check, ...] = (system.glibc,)
"""The same for a spec without CUDA."""

CHECKS: tuple[Check, ...] = (
    *HARDWARE,
    nvidia.libraries,
    system.shared_memory,
    system.space,
    system.user_namespaces,
    runtimes.containers,
    runtimes.slurm,
    python.interpreter,
    python.leaks,
    python.compiler,
    python.conda,
)


def examine(machine: Machine, checks: tuple[Check, ...] = CHECKS) -> tuple[Result, ...]:
    """Run checks on a machine. Pure: they know only `machine`."""
    return tuple(check(machine) for check in checks)
