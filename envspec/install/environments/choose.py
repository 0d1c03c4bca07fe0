"""The target that a machine gets when the user names none. Pure.

A CPU target is taken only where the lock has no CUDA target for the platform: a machine without a GPU may be a login
node, whose user wants CUDA all the same.
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

_SHOWN_TARGETS = 6
"""The greatest number of targets that a refusal explains."""


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
    reasons = {target.name: misfit(spec, target, replace(machine, without_gpu=True)) for target in targets}
    runnable = tuple(target for target in targets if reasons[target.name] is None)
    if not runnable:
        raise _nothing(spec, reasons)
    with_gpu = tuple(target for target in runnable if target.inputs.cuda)
    by_setting = _preference(runnable, preferred)
    if not with_gpu:
        if len(runnable) == 1:
            return ChosenTarget(runnable[0], f"the only one for {machine.platform}" if len(targets) > 1 else "")
        if by_setting:
            return ChosenTarget(by_setting, _BY_SETTING)
        return Undecided(runnable, f"{len(runnable)} targets run on this machine")
    if machine.capabilities:
        return _by_gpu(spec, runnable, with_gpu, machine, preferred)
    if by_setting:
        return ChosenTarget(by_setting, f"{_BY_SETTING}; {_NOT_JUDGED}" if by_setting.inputs.cuda else _BY_SETTING)
    if len(runnable) == 1:
        return ChosenTarget(runnable[0], f"the only one for {machine.platform}; {_NOT_JUDGED}")
    return Undecided(runnable, "this machine shows no working GPU, which doesn't say that a CPU target is wanted")


def remark(spec: Spec, target: LockedTarget, machine: LocalMachine) -> str | None:
    """Return the remark on a target that the user named and that may not run here; None for a target that runs."""
    if target.inputs.cuda and not machine.capabilities:
        return _NOT_JUDGED
    return misfit(spec, target, machine)


_BY_SETTING = "by the default of your settings"


_NOT_JUDGED = "not judged here, because this machine shows no working GPU"


def _by_gpu(
    spec: Spec,
    runnable: tuple[LockedTarget, ...],
    with_gpu: tuple[LockedTarget, ...],
    machine: LocalMachine,
    preferred: Sequence[str],
) -> ChosenTarget:
    """Choose among the targets for GPUs: one that isn't for this machine's is no reason to take a CPU target."""
    reasons = {target.name: misfit(spec, target, machine) for target in with_gpu}
    fitting = tuple(target for target in with_gpu if reasons[target.name] is None)
    if not fitting:
        raise _nothing(spec, reasons, next((target.name for target in runnable if not target.inputs.cuda), None))
    best = _preference(fitting, preferred) or max(fitting, key=_rank)
    rest = [target.name for target in fitting if target is not best]
    more = f"; {', '.join(rest)} would run too" if rest else ""
    return ChosenTarget(best, f"{_gpus(machine)}, driver {machine.driver or 'unknown'}{more}")


def _rank(target: LockedTarget) -> tuple[object, ...]:
    """The newest CUDA first, then what is made for the fewest architectures; names decide the rest."""
    return numbers_in(target.inputs.cuda or "0"), -len(target.architectures), target.name


def _gpus(machine: LocalMachine) -> str:
    distinct = list(dict.fromkeys(machine.capabilities))
    counted = f"{len(machine.capabilities)} GPUs" if len(machine.capabilities) > 1 else "GPU"
    return f"{counted} of {', '.join(map(sm_of, distinct))}"


def _preference(targets: Iterable[LockedTarget], patterns: Sequence[str]) -> LockedTarget | None:
    every = tuple(targets)
    return next((target for pattern in patterns for target in every if fnmatchcase(target.name, pattern)), None)


def _nothing(spec: Spec, reasons: dict[str, str | None], cpu: str | None = None) -> InputError:
    lines = [f"{name}: {reason}" for name, reason in reasons.items()]
    left = [f"and {len(lines) - _SHOWN_TARGETS} more"] if len(lines) > _SHOWN_TARGETS else []
    hint = f"`envspec doctor {spec.path}` says what would work here"
    if cpu:
        hint = f"--target {cpu} runs without the GPU; {hint}"
    return InputError("\n  ".join([f"no target of {spec.name} runs here:", *lines[:_SHOWN_TARGETS], *left]), hint=hint)
