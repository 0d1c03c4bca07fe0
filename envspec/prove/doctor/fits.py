"""The targets that a machine can install and truly check. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from envspec.base.errors import InputError
from envspec.facts.compute_capability import capability_of, covers
from envspec.lock.model import LockedTarget
from envspec.packages.own_extras import how_to_get
from envspec.packages.requirement import canonical_name
from envspec.packages.version_numbers import numbers_in
from envspec.spec.model import Spec


class LocalMachine(Struct, frozen=True):
    """The facts and limits that decide which targets a machine can run.

    platform    conda's name of it ("linux-64"); glibc: its version or None
    has_python  whether the machine has a CPython "3.12" to make an environment with
    has_conda   whether conda packages can be installed (py-rattler is installed)
    capabilities  of its GPUs ("9.0"), empty without one; `driver` the driver's version
    without_gpu   CUDA targets run without a GPU too: only their CPU checks run, and the headline says so
    near        a CUDA target runs where the GPUs run its code, though it is made for others
    contained   the environment comes in an image, with its own Python, glibc and conda packages
    """

    platform: str
    glibc: str | None
    has_python: Callable[[str], bool]
    has_conda: bool = True
    capabilities: tuple[str, ...] = ()
    driver: str | None = None
    without_gpu: bool = False
    contained: bool = False
    near: bool = False


FRAMEWORKS = {
    "torch": r"torch|pytorch(-(gpu|cpu))?",
    "jax": r"jax",
    "tensorflow": r"tensorflow(-(cpu|gpu|intel))?",
    "onnxruntime": r"onnxruntime(-gpu)?",
    "cupy": r"cupy(-cuda\d+x)?",
    "rapids": r"(cudf|cuml)(-cu\d+)?",
}
"""The frameworks of which the smoke check has checks, and the packages that bring each: those of `envspec_check.lock`,
to which a test holds them equal."""


def locked_frameworks(target: LockedTarget) -> tuple[str, ...]:
    """List the frameworks of `FRAMEWORKS` that a target locks, or that its base has."""
    names = {canonical_name(name) for pin in target.pins for name in (pin.name, *pin.provides)}
    names |= {name for name, _ in target.provided}
    return tuple(key for key, brings in FRAMEWORKS.items() if any(re.fullmatch(brings, name) for name in names))


def without_framework(target: LockedTarget) -> str | None:
    """Return the reason why the smoke check proves nothing of a target; None where it locks a framework with checks."""
    if locked_frameworks(target):
        return None
    return f"the target locks none of {', '.join(FRAMEWORKS)}: nothing of it is checked"


def misfit(spec: Spec, target: LockedTarget, machine: LocalMachine) -> str | None:
    """Return the reason why `machine` can't run a target of `spec`'s lock; None when it can."""
    inputs = target.inputs
    if inputs.platform != machine.platform:
        return f"the target is for {inputs.platform}, this machine is {machine.platform}"
    if not machine.contained and (reason := _unfit(target, machine)):
        return reason
    if not machine.without_gpu and (reason := _without(target, machine)):
        return reason
    return None


def reason_to_skip(
    spec: Spec, target: LockedTarget, machine: LocalMachine, *, nodes: int, is_named: bool
) -> str | None:
    """Give the reason why a target isn't checked on a machine, on so many nodes; None where it is. One that the user
    named is tried all the same. Raises InputError for a named one that several nodes can't check."""
    if nodes > 1 and "torch" not in locked_frameworks(target):
        reason = "the target locks no torch, which trains across nodes"
        if is_named:
            raise InputError(f"{spec.name} × {target.name}: {reason}", hint="leave --nodes out")
        return reason
    return None if is_named else without_framework(target) or misfit(spec, target, machine)


def _unfit(target: LockedTarget, machine: LocalMachine) -> str | None:
    """Return the reason why this machine itself can't make the environment."""
    inputs = target.inputs
    glibc = inputs.glibc if inputs.platform.startswith("linux-") else None
    if glibc and numbers_in(machine.glibc or "0") < numbers_in(glibc):
        return f"the target is locked for glibc {glibc}, this machine has {machine.glibc or 'none'}"
    if any(pin.kind == "conda" for pin in target.pins) and not machine.has_conda:
        return f"the target has conda packages, and py-rattler is missing ({how_to_get('conda')})"
    if target.pin("python", "conda") is None and not machine.has_python(inputs.python):
        return f"this machine has no Python {inputs.python}"
    return None


def _without(target: LockedTarget, machine: LocalMachine) -> str | None:
    """Return the reason why this machine's GPUs can't run a CUDA target."""
    if target.inputs.cuda is None:
        return None
    if not machine.capabilities:
        return "the target is for GPUs, and this machine has no working one"
    # exactly, unless a near GPU will do: that it runs code for another one says nothing of the target's own
    meant = {capability_of(sm) for sm in target.architectures}
    cuda = target.inputs.cuda if machine.near else None
    runs = [own in meant or (machine.near and covers(target.architectures, own, cuda)) for own in machine.capabilities]
    if not all(runs):
        required, own = ", ".join(target.architectures), ", ".join(machine.capabilities)
        return f"the target is for {required}, this machine's GPUs are {own}"
    if target.driver_floor and (machine.driver is None or numbers_in(machine.driver) < numbers_in(target.driver_floor)):
        driver = machine.driver or "an unknown one"
        return f"the target needs driver {target.driver_floor} or newer, this machine has {driver}"
    return None
