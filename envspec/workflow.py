"""Locking a spec, from the parsed spec to the new lock: the flow of DESIGN §2 in one place, with its I/O passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from envspec.errors import Infeasible, InfeasibleTargets, InputError, InternalError, SpecError, WrongBuild
from envspec.gpu import gpus, toolkits, torch_builds
from envspec.gpu.corrections import Correction, corrections, corrections_broken_by, corrections_for
from envspec.gpu.finding import Finding
from envspec.gpu.rules import feasible, judge, judge_pins
from envspec.lock.inputs import canonical_name, requirement_name, spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedTarget, Pin, TargetInputs
from envspec.lock.verify import violations
from envspec.resolve.cuda_check import wrong_builds
from envspec.resolve.request import Preferences, Request, request_for
from envspec.spec.model import Spec, Target


class Resolver(Protocol):
    """What turns requests into pins. `keep` holds, by target, versions to stay with where they still fit."""

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...


@dataclass(frozen=True)
class Upgrade:
    """What of an old lock may move: all of it, or the packages named."""

    everything: bool = False
    packages: frozenset[str] = frozenset()


Notice = Callable[[Finding], None]
"""Told what a user should know and that stops nothing: warnings, corrections."""


def relock(
    spec: Spec,
    old: Lock | None,
    resolver: Resolver,
    *,
    upgrade: Upgrade | None = None,
    only: Collection[str] = (),
    notice: Notice = lambda finding: None,
) -> Lock:
    """A new lock of `spec`.

    Takes the old lock, whose pins stay where they still satisfy the spec, and the targets to lock anew (all by default;
    the others keep what `old` has for them).

    The GPU rules judge every target before anything is resolved, and the exact pins afterwards.

    Raises Infeasible for what the rules refuse, SpecError for a correction that doesn't exist, InputError for a wrong
    `only`, WrongBuild when a CPU build or one of another CUDA got in, InternalError when the result contradicts itself,
    and what the resolver raises.
    """
    upgrade = upgrade or Upgrade()
    targets = _chosen(spec, old, only)
    _refuse_unknown_corrections(spec)
    _judged(((target, judge(spec, target)) for target in targets), notice)
    keep = {} if upgrade.everything else _kept(old, upgrade.packages)
    shared = spec_inputs(spec)
    inputs = {target.name: target_inputs(spec, target) for target in targets}
    applied: dict[str, tuple[Correction, ...]] = {
        target.name: corrections_for(inputs[target.name].requirements, spec.pip.without_corrections)
        for target in targets
    }
    narrowed = {target.name: _feasible_torch(spec, target) for target in targets}
    while True:
        bounds = {name: {*narrowed[name], *(c.constraint for c in applied[name])} for name in inputs}
        requests = {name: request_for(shared, inputs[name], tuple(sorted(bounds[name]))) for name in inputs}
        pins = resolver.resolve(requests, keep)
        broken = {
            name: corrections_broken_by(_versions(pins[name]), spec.pip.without_corrections) for name in applied
        }
        more = {name: tuple(c for c in broken[name] if c not in applied[name]) for name in applied}
        if not any(more.values()):
            break
        # what uv chose has published metadata that is wrong: once more, with what that should have said
        applied = {name: (*applied[name], *more[name]) for name in applied}
    _tell_corrections(applied, notice)
    _judged(((target, judge_pins(spec, target, _versions(pins[target.name]))) for target in targets), notice)
    locked = [_locked(target, inputs[target.name], pins[target.name]) for target in targets]
    done = {target.name for target in targets}
    names = {target.name for target in spec.targets}
    locked += [target for target in old or () if target.name in names - done]
    return Lock(
        name=spec.name, inputs=shared, targets=tuple(sorted(locked, key=lambda target: target.name))
    )


def architectures_of(target: Target) -> tuple[str, ...]:
    """The compute capabilities of a target's GPUs as "sm_90", oldest first; GPUs that no table knows are left out."""
    capabilities = {gpu.capability for name in target.gpus for gpu in gpus.find(name)}
    return tuple("sm_" + capability.replace(".", "") for capability in sorted(capabilities, key=gpus.order))


def _chosen(spec: Spec, old: Lock | None, only: Collection[str]) -> tuple[Target, ...]:
    if not only:
        return spec.targets
    known = [target.name for target in spec.targets]
    unknown = sorted(set(only) - set(known))
    if unknown:
        raise InputError(f"{spec.path} has no target {', '.join(unknown)}", hint=f"its targets: {', '.join(known)}")
    if old is not None and old.inputs != spec_inputs(spec) and set(only) != set(known):
        raise InputError(
            f"{spec.path} changed in what all its targets share, so they must be locked together",
            hint="leave out --target",
        )
    return tuple(target for target in spec.targets if target.name in only)


def _judged(findings: Iterable[tuple[Target, Sequence[Finding]]], notice: Notice) -> None:
    """Tell warnings; raise Infeasible with every error finding, each said once with the targets it holds for."""
    by_finding: dict[Finding, list[str]] = {}
    for target, found in findings:
        for finding in found:
            by_finding.setdefault(finding, []).append(target.name)
    refused = []
    for finding, names in by_finding.items():
        message = f"{', '.join(names)}: {finding.message}"
        if finding.severity == "error":
            refused.append(Infeasible(message, hint=finding.remedy, place=finding.place))
        else:
            notice(Finding(finding.severity, finding.code, message, finding.place, finding.remedy))
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise InfeasibleTargets(refused)


def _feasible_torch(spec: Spec, target: Target) -> tuple[str, ...]:
    """A constraint to the torch releases that work on the target, where the spec admits others too."""
    if not any(finding.code == "torch-narrowed" for finding in judge(spec, target)):
        return ()
    working = sorted(feasible(spec, target), key=torch_builds.order)
    first, last = torch_builds.order(working[0]), torch_builds.order(working[-1])
    between = [r.version for r in torch_builds.releases() if first < torch_builds.order(r.version) < last]
    holes = [f"!={version}" for version in between if version not in working]
    return ("torch" + ",".join([f">={working[0]}", f"<={working[-1]}", *holes]),)


def _refuse_unknown_corrections(spec: Spec) -> None:
    known = {correction.name for correction in corrections()}
    for name in sorted(spec.pip.without_corrections - known):
        raise SpecError(
            f'there is no correction "{name}"',
            hint=f"the corrections: {', '.join(sorted(known))}",
            place=spec.places.get("pip.without-corrections"),
        )


def _tell_corrections(applied: Mapping[str, Sequence[Correction]], notice: Notice) -> None:
    targets: dict[Correction, list[str]] = {}
    for name, several in applied.items():
        for correction in several:
            targets.setdefault(correction, []).append(name)
    for correction, names in targets.items():
        notice(
            Finding(
                "info",
                "correction",
                f"{', '.join(names)}: {correction.constraint} added, because {correction.reason}",
                remedy=f'to do without: without-corrections = ["{correction.name}"] in [pip]',
            )
        )


def _versions(pins: Sequence[Pin]) -> dict[str, str]:
    return {pin.name: pin.version for pin in pins if pin.kind == "pip"}


def _kept(old: Lock | None, moving: frozenset[str]) -> dict[str, Preferences]:
    free = frozenset(canonical_name(name) for name in moving)
    return {
        target.name: Preferences(
            {pin.name: pin.version for pin in target.pins if pin.kind == "pip" and not pin.git}, _commits(target)
        ).without(free)
        for target in old or ()
    }


def _commits(target: LockedTarget) -> dict[str, str]:
    """The commits of a target's git requirements, by requirement: another URL or revision is another requirement."""
    commits = {pin.name: pin.git.commit for pin in target.pins if pin.git}
    return {text: commits[name] for text in target.inputs.requirements if (name := requirement_name(text)) in commits}


def _locked(target: Target, inputs: TargetInputs, pins: Sequence[Pin]) -> LockedTarget:
    """A target with its pins, judged: the right CUDA, and every requirement satisfied."""
    wrong = wrong_builds(pins, target.cuda) if target.cuda else ()
    if wrong:
        raise WrongBuild(
            f"{target.name} asks for CUDA {target.cuda}, but {'; '.join(wrong)}",
            hint=f"`envspec builds torch --cuda {target.cuda}` lists the builds that fit; nothing was written",
            place=target.places.get("cuda", target.place),
        )
    locked = LockedTarget(
        name=target.name,
        inputs=inputs,
        pins=tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name))),
        architectures=architectures_of(target),
        driver_floor=toolkits.driver_floor(target.cuda, target.platform) if target.cuda else None,
    )
    problems = violations(locked)
    if problems:
        raise InternalError(
            f"{target.name}: the resolution contradicts itself: {'; '.join(problems[:5])}",
            hint="nothing was written; please report this with the spec",
        )
    return locked
