"""Locking a spec, from the parsed spec to the new lock: the flow of DESIGN §2 in one place, with its I/O passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from envspec.errors import Infeasible, InfeasibleTargets, InputError, InternalError, Place, SpecError, WrongBuild
from envspec.facts import conda_builds, torch_builds
from envspec.facts.corrections import Correction, corrections, corrections_broken_by, corrections_for
from envspec.facts.minimum import architectures, driver_floor
from envspec.facts.missing_requirements import MissingRequirement, missing_requirements
from envspec.lock import extras
from envspec.lock.graph import parsed
from envspec.lock.inputs import has_equal_inputs, spec_inputs, target_inputs
from envspec.lock.judge import WRONG_BUILDS, Flaw, judge_target
from envspec.lock.judge import judge as judge_lock
from envspec.lock.model import Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.redact import redact
from envspec.resolve.conda.request import CondaRequest, conda_request_for
from envspec.resolve.pip.provided import provided_by
from envspec.resolve.pip.request import Preferences, Request, request_for
from envspec.resolve.torch_index import holes as torch_holes
from envspec.rules import feasible, judge, judge_pins
from envspec.rules.finding import Finding
from envspec.rules.wanted import torch_of
from envspec.spec.messages import refuse_unknown_targets
from envspec.spec.model import Spec, Target


class Resolver(Protocol):
    """What turns requests into pins. `keep` holds, by target, versions to stay with where they still fit."""

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...


class CondaHalf(Protocol):
    """The same for the conda half. `keep` holds a package's version and build."""

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
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
    conda: CondaHalf | None = None,
    upgrade: Upgrade | None = None,
    only: Collection[str] = (),
    refreshed: bool = False,
    notice: Notice = lambda finding: None,
) -> Lock:
    """A new lock of `spec`.

    Takes the old lock, whose pins stay where they still satisfy the spec, and the targets to lock anew (all by default;
    the others keep what `old` has for them). `conda` is needed for a spec with conda dependencies; it solves first, and
    what it installs counts for pip. `refreshed` says that the live PyTorch index is asked besides the facts.

    The GPU rules judge every target before anything is resolved, and the exact pins afterwards.

    Raises Infeasible for what the rules refuse, SpecError for a correction that doesn't exist, InputError for a wrong
    `only`, WrongBuild when a CPU build or one of another CUDA got in, InternalError when the result contradicts itself,
    and what the resolver raises.
    """
    upgrade = upgrade or Upgrade()
    flaws = flaws_of(spec, old) if old else ()
    targets = _chosen(spec, old, only)
    failing = {name for flaw in flaws for name in flaw.targets} - {target.name for target in targets}
    targets = (*targets, *(target for target in spec.targets if target.name in failing))
    _tell_flaws(flaws, notice)
    _refuse_unknown_corrections(spec)
    for target in targets:
        _refuse_addresses(spec, target)
    _judged(((target, judge(spec, target)) for target in targets), notice)
    keep = {} if upgrade.everything else _kept(old, upgrade.packages, flaws)
    keep_conda = {} if upgrade.everything else _kept_conda(old, upgrade.packages, flaws)
    shared = spec_inputs(spec)
    inputs = {target.name: target_inputs(spec, target) for target in targets}
    applied: dict[str, tuple[Correction, ...]] = {
        target.name: corrections_for(inputs[target.name].requirements, spec.pip.without_corrections)
        for target in targets
    }
    missing = tuple(one for one in missing_requirements() if one.name not in spec.pip.without_corrections)
    narrowed = {target.name: _feasible_torch(spec, target) for target in targets}
    installed = _solve_conda(
        conda,
        {
            target.name: conda_request_for(
                shared, inputs[target.name], architectures(target.gpus), narrowed[target.name].conda
            )
            for target in targets
            if inputs[target.name].conda_requirements
        },
        keep_conda,
    )
    provided = {name: provided_by(installed.get(name, ())) for name in inputs}
    while True:
        bounds = {name: {*narrowed[name].pip, *(c.constraint for c in applied[name])} for name in inputs}
        requests = {
            name: request_for(shared, inputs[name], tuple(sorted(bounds[name])), provided[name], missing)
            for name in inputs
            if inputs[name].requirements
        }
        added = resolver.resolve(requests, keep) if requests else {}
        pins = {name: (*installed.get(name, ()), *added.get(name, ())) for name in inputs}
        broken = {
            name: corrections_broken_by(_versions(pins[name], "pip"), spec.pip.without_corrections) for name in applied
        }
        more = {name: tuple(c for c in broken[name] if c not in applied[name]) for name in applied}
        if not any(more.values()):
            break
        # what uv chose has published metadata that is wrong: once more, with what that should have said
        applied = {name: (*applied[name], *more[name]) for name in applied}
    _tell_corrections(
        applied, {name: _stated(pins[name], request.missing) for name, request in requests.items()}, notice
    )
    _judged(((target, _judge_pins(spec, target, pins[target.name])) for target in targets), notice)
    holes = torch_holes.findings(requests, pins, keep, refreshed=refreshed)
    _judged(((target, holes.get(target.name, ())) for target in targets), notice)
    locked = [_locked(target, shared, inputs[target.name], pins[target.name]) for target in targets]
    _judged(
        (
            (target, tuple(extras.findings(one, _places(spec, target))))
            for target, one in zip(targets, locked, strict=True)
        ),
        notice,
    )
    done = {target.name for target in targets}
    names = {target.name for target in spec.targets}
    locked += [target for target in old or () if target.name in names - done]
    _tell_unused_sources(spec, locked, notice)
    return Lock(name=spec.name, inputs=shared, targets=tuple(sorted(locked, key=lambda target: target.name)))


def flaws_of(spec: Spec, old: Lock) -> tuple[Flaw, ...]:
    """What can't be right in a lock. What the spec asks for otherwise since then makes it stale, not wrong."""
    return judge_lock(old, spec if has_equal_inputs(spec, old) else None)


def _tell_flaws(flaws: Sequence[Flaw], notice: Notice) -> None:
    for flaw in flaws:
        notice(Finding("warning", flaw.code, f"the lock can't be right: {flaw.message}; this is solved anew"))


def _chosen(spec: Spec, old: Lock | None, only: Collection[str]) -> tuple[Target, ...]:
    if not only:
        return spec.targets
    known = [target.name for target in spec.targets]
    refuse_unknown_targets(sorted(only), known, spec.path)
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


@dataclass(frozen=True)
class _Narrowed:
    """A constraint to the torch releases that work on a target, for the half that torch comes from."""

    pip: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()


def _feasible_torch(spec: Spec, target: Target) -> _Narrowed:
    """Nothing where the spec admits no others than those that work."""
    if not any(finding.code == "torch-narrowed" for finding in judge(spec, target)):
        return _Narrowed()
    working = sorted(feasible(spec, target), key=torch_builds.order)
    first, last = torch_builds.order(working[0]), torch_builds.order(working[-1])
    wanted = torch_of(spec, target)
    by_conda = wanted is not None and wanted.channel == "conda"
    known = conda_builds.versions() if by_conda else [r.version for r in torch_builds.releases()]
    between = [version for version in known if first < torch_builds.order(version) < last]
    holes = [f"!={version}" for version in between if version not in working]
    bounds = ",".join([f">={working[0]}", f"<={working[-1]}", *holes])
    return _Narrowed(conda=(f"pytorch {bounds}",)) if by_conda else _Narrowed(pip=(f"torch{bounds}",))


def _solve_conda(
    conda: CondaHalf | None, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
) -> Mapping[str, tuple[Pin, ...]]:
    """The conda half of the targets that have one."""
    if not requests:
        return {}
    if conda is None:
        raise InternalError(f"{', '.join(requests)} ask for conda packages, and nobody was told to solve them")
    return conda.resolve(requests, keep)


def _refuse_addresses(spec: Spec, target: Target) -> None:
    """Refuse what names its own source and can't be locked: a path of this machine, or source that may not be built."""
    for located in spec.pip_dependencies(target):
        requirement = parsed(located.text) if "@" in located.text else None
        if requirement is None or requirement.url is None:
            continue
        name = canonical_name(requirement.name)
        if requirement.url.startswith("file:"):
            raise SpecError(
                f"{redact(located.text)} is on this machine alone, which no lock can hold",
                hint="give a git URL, an address that others reach too, or a released version",
                place=located.place,
            )
        if not requirement.url.partition("#")[0].endswith(".whl") and name not in spec.pip.allow_source:
            raise SpecError(
                f"{redact(located.text)} is built from source, which runs its code",
                hint=f'if you trust it: allow-source = ["{name}"] in [pip]',
                place=located.place,
            )


def _refuse_unknown_corrections(spec: Spec) -> None:
    known = {*(one.name for one in corrections()), *(one.name for one in missing_requirements())}
    for name in sorted(spec.pip.without_corrections - known):
        raise SpecError(
            f'there is no correction "{name}"',
            hint=f"the corrections: {', '.join(sorted(known))}",
            place=spec.places.get("pip.without-corrections"),
        )


def _stated(pins: Sequence[Pin], known: Iterable[MissingRequirement]) -> tuple[MissingRequirement, ...]:
    """The missing requirements that the METADATA of these pins leaves out."""
    return tuple(one for one in known if any(one.concerns(p.name, p.version) for p in pins if p.kind == "pip"))


def _tell_corrections(
    applied: Mapping[str, Sequence[Correction]], stated: Mapping[str, Sequence[MissingRequirement]], notice: Notice
) -> None:
    targets: dict[tuple[str, str, str], list[str]] = {}
    for target, several in applied.items():
        for correction in several:
            targets.setdefault((correction.name, correction.constraint, correction.reason), []).append(target)
    for target, missing in stated.items():
        for one in missing:
            targets.setdefault((one.name, one.requirement, one.reason), []).append(target)
    for (name, added, reason), names in targets.items():
        notice(
            Finding(
                "info",
                "correction",
                f"{', '.join(names)}: {added} added, because {reason}",
                remedy=f'to do without: without-corrections = ["{name}"] in [pip]',
            )
        )


def _places(spec: Spec, target: Target) -> dict[str, Place]:
    """Where the spec asks for each package."""
    return {requirement_name(located.text): located.place for located in spec.pip_dependencies(target)}


def _tell_unused_sources(spec: Spec, locked: Iterable[LockedTarget], notice: Notice) -> None:
    """A source for a name that nothing has guards nothing: the name it was meant for is looked up on PyPI."""
    used = {canonical_name(name) for target in locked for pin in target.pins for name in (pin.name, *pin.provides)}
    places = {
        canonical_name(key.removeprefix("pip.sources.")): place
        for key, place in spec.places.items()
        if key.startswith("pip.sources.")
    }
    for name, index in sorted(spec.pip.sources.items()):
        if name not in used:
            notice(
                Finding(
                    "warning",
                    "unused-source",
                    f"[pip] sources names {name}, which no target has: a misspelt name would come from PyPI",
                    places.get(name),
                    f"write it as the dependency is written, or take it out if nothing needs it from {index}",
                )
            )


def _judge_pins(spec: Spec, target: Target, pins: Sequence[Pin]) -> tuple[Finding, ...]:
    builds = {pin.name: pin.build for pin in pins if pin.kind == "conda" and pin.build}
    needs = {pin.name: [requirement_name(line) for line in pin.dependencies] for pin in pins if pin.kind == "pip"}
    return judge_pins(spec, target, {**_versions(pins, "conda"), **_versions(pins, "pip")}, builds, needs)


def _versions(pins: Sequence[Pin], kind: str) -> dict[str, str]:
    return {pin.name: pin.version for pin in pins if pin.kind == kind}


def _free(target: LockedTarget, moving: frozenset[str], flaws: Sequence[Flaw]) -> frozenset[str]:
    """The packages of a target that don't stay: those that shall move, and those that can't be right."""
    wrong = {flaw.package for flaw in flaws if flaw.package and target.name in flaw.targets}
    return frozenset(canonical_name(name) for name in {*moving, *wrong})


def _kept_conda(old: Lock | None, moving: frozenset[str], flaws: Sequence[Flaw]) -> dict[str, Preferences]:
    return {
        target.name: Preferences(
            {
                pin.name: f"{pin.version} {pin.build or ''}".rstrip()
                for pin in target.pins
                if pin.kind == "conda"
                and _free(target, moving, flaws).isdisjoint({canonical_name(pin.name), *pin.provides})
            }
        )
        for target in old or ()
    }


def _kept(old: Lock | None, moving: frozenset[str], flaws: Sequence[Flaw]) -> dict[str, Preferences]:
    return {
        target.name: Preferences(
            {pin.name: pin.version for pin in target.pins if pin.kind == "pip" and not pin.git}, _commits(target)
        ).without(_free(target, moving, flaws))
        for target in old or ()
    }


def _commits(target: LockedTarget) -> dict[str, str]:
    """The commits of a target's git requirements, by requirement: another URL or revision is another requirement."""
    commits = {pin.name: pin.git.commit for pin in target.pins if pin.git}
    return {text: commits[name] for text in target.inputs.requirements if (name := requirement_name(text)) in commits}


def _locked(target: Target, shared: SpecInputs, inputs: TargetInputs, pins: Sequence[Pin]) -> LockedTarget:
    """A target with its pins, judged as every reader of the lock will judge it."""
    locked = LockedTarget(
        name=target.name,
        inputs=inputs,
        pins=tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name))),
        architectures=architectures(inputs.gpus),
        driver_floor=driver_floor(inputs.cuda, inputs.platform, inputs.gpus),
    )
    flaws = judge_target(locked, shared)
    wrong = [flaw.sentence for flaw in flaws if flaw.code in WRONG_BUILDS]
    if wrong:
        asked = f"CUDA {target.cuda}" if target.cuda else "no CUDA"
        listed = f" --cuda {target.cuda}" if target.cuda else ""
        raise WrongBuild(
            f"{target.name} asks for {asked}, but {'; '.join(wrong)}",
            hint=f"`envspec builds torch{listed}` lists the builds that fit; nothing was written",
            place=target.places.get("cuda", target.place),
        )
    if flaws:
        raise InternalError(
            f"{target.name}: the resolution contradicts itself: {'; '.join(flaw.sentence for flaw in flaws[:5])}",
            hint="nothing was written; please report this with the spec",
        )
    return locked
