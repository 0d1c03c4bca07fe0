"""The target that a machine gets when the user names none. Pure.

A CPU target is taken only where the lock has no CUDA target for the platform: that a machine shows no GPU says where
one stands (a login node), not what one wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.facts.compute_capability import sm_of
from envspec.lock.model import LockedTarget
from envspec.packages.version_numbers import numbers_in
from envspec.prove.doctor.fits import LocalMachine, misfit
from envspec.spec.model import Spec

_TOLD = 6
"""How many targets a refusal explains."""


class ChosenTarget(Struct, frozen=True):
    """A target, and in a few words why it is this one; empty where there is no other."""

    target: LockedTarget
    because: str


class Undecided(Struct, frozen=True):
    """The targets that only the user can choose from, and why envspec doesn't."""

    targets: tuple[LockedTarget, ...]
    because: str


def choose(
    spec: Spec, targets: Sequence[LockedTarget], machine: LocalMachine, preferred: Sequence[str] = ()
) -> ChosenTarget | Undecided:
    """Choose a target for a machine. `preferred` are the patterns of the user's setting, the most wanted first.

    Raises InputError where no target runs here.
    """
    reasons = {one.name: misfit(spec, one, replace(machine, without_gpu=True)) for one in targets}
    here = tuple(one for one in targets if reasons[one.name] is None)
    if not here:
        raise _nothing(spec, reasons)
    with_gpu = tuple(one for one in here if one.inputs.cuda)
    wanted = _preference(here, preferred)
    if not with_gpu:
        if len(here) == 1:
            return ChosenTarget(here[0], f"the only one for {machine.platform}" if len(targets) > 1 else "")
        if wanted:
            return ChosenTarget(wanted, _BY_SETTING)
        return Undecided(here, f"{len(here)} targets run on this machine")
    if machine.capabilities:
        return _by_gpu(spec, here, with_gpu, machine, preferred)
    if wanted:
        return ChosenTarget(wanted, f"{_BY_SETTING}; {_NOT_JUDGED}" if wanted.inputs.cuda else _BY_SETTING)
    if len(here) == 1:
        return ChosenTarget(here[0], f"the only one for {machine.platform}; {_NOT_JUDGED}")
    return Undecided(here, "this machine shows no working GPU, which doesn't say that a CPU target is wanted")


def remark(spec: Spec, target: LockedTarget, machine: LocalMachine) -> str | None:
    """The remark on a target that the user named, and that isn't known to run here; None where it is."""
    if target.inputs.cuda and not machine.capabilities:
        return _NOT_JUDGED
    return misfit(spec, target, machine)


_BY_SETTING = "by the default of your settings"


_NOT_JUDGED = "not judged here, because this machine shows no working GPU"


def _by_gpu(
    spec: Spec,
    here: tuple[LockedTarget, ...],
    with_gpu: tuple[LockedTarget, ...],
    machine: LocalMachine,
    preferred: Sequence[str],
) -> ChosenTarget:
    """Choose among the targets for GPUs: one that isn't for this machine's is no reason to take a CPU target."""
    reasons = {one.name: misfit(spec, one, machine) for one in with_gpu}
    fitting = tuple(one for one in with_gpu if reasons[one.name] is None)
    if not fitting:
        raise _nothing(spec, reasons, next((one.name for one in here if not one.inputs.cuda), None))
    found = _preference(fitting, preferred) or max(fitting, key=_rank)
    others = [one.name for one in fitting if one is not found]
    more = f"; {', '.join(others)} would run too" if others else ""
    return ChosenTarget(found, f"{_gpus(machine)}, driver {machine.driver or 'unknown'}{more}")


def _rank(target: LockedTarget) -> tuple[object, ...]:
    """The newest CUDA first, then what is made for the fewest architectures; names decide the rest."""
    return numbers_in(target.inputs.cuda or "0"), -len(target.architectures), target.name


def _gpus(machine: LocalMachine) -> str:
    found = list(dict.fromkeys(machine.capabilities))
    counted = f"{len(machine.capabilities)} GPUs" if len(machine.capabilities) > 1 else "GPU"
    return f"{counted} of {', '.join(map(sm_of, found))}"


def _preference(targets: Iterable[LockedTarget], patterns: Sequence[str]) -> LockedTarget | None:
    every = tuple(targets)
    return next((one for pattern in patterns for one in every if fnmatchcase(one.name, pattern)), None)


def _nothing(spec: Spec, reasons: dict[str, str | None], cpu: str | None = None) -> InputError:
    told = [f"{name}: {reason}" for name, reason in reasons.items()]
    left = [f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []
    hint = f"`envspec doctor {spec.path}` says what would work here"
    if cpu:
        hint = f"--target {cpu} runs without the GPU; {hint}"
    return InputError("\n  ".join([f"no target of {spec.name} runs here:", *told[:_TOLD], *left]), hint=hint)
