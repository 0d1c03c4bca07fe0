"""The acceptance of solved targets into a lock: exact pins are judged, and findings reported."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from envspec.base.errors import EnvspecError, IndexFailure, Infeasible, InternalError, Place, SpecError
from envspec.base.finding import Finding
from envspec.base.redact import redact
from envspec.facts.minimum import architectures, driver_floor
from envspec.lock import graph
from envspec.lock.judge import WRONG_BUILDS, judge_target
from envspec.lock.model import LockedTarget, Pin
from envspec.lock.pinned import pinned_versions
from envspec.lock.rules.requirements import REFUSED_PYTHON
from envspec.lock.shared_paths import overwrites, pip_order, shared_paths
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.packages.tags import ReleaseFile, choose_file
from envspec.resolve.pip.newest import Releases
from envspec.resolve.pip.request import OTHER_BASE, Request
from envspec.resolve.workflow.bounded import describe_moves, explain_refusals, of_one_cause, retreats
from envspec.resolve.workflow.notices import merge_findings, notes_among, refusals
from envspec.resolve.workflow.prepare import Prepared, unused_terms
from envspec.resolve.workflow.solve import Solved
from envspec.rules.build import OF_BUILDS
from envspec.rules.case import apply_acceptances
from envspec.rules.pins import judge_pins
from envspec.rules.wheel_code import WheelBuild, locked_code
from envspec.spec.model import Spec, Target, acceptance_key
from envspec.spec.way import Way


def accept(spec: Spec, solved: Sequence[Solved]) -> tuple[tuple[LockedTarget, ...], tuple[Finding, ...]]:
    """Turn the solved targets of a spec into its lock's, with the findings on them.

    Raises Infeasible or InfeasibleTargets for pins that the rules refuse, Infeasible when a CPU build or one of another
    CUDA got in, SpecError for a source that only a package names,
    InternalError when the result contradicts itself.
    """
    of_its_pins = {target.name: (*target.judged, *of_retreats(spec, target)) for target in solved}
    of_pins = notes_among(
        merge_findings((target.name, _explain(of_its_pins[target.name], target)) for target in solved)
    )
    moves = ((target.name, describe_moves(target.gave_up, target.versions)) for target in solved)
    locked = tuple(_lock_target(target) for target in solved)
    of_its_extras = {
        solution.name: _of_extras(spec, solution.prepared.target, target)
        for solution, target in zip(solved, locked, strict=True)
    }
    of_extras = notes_among(merge_findings(of_its_extras.items()))
    codes = [
        (
            target.prepared.target,
            _codes(target.prepared.verdict.findings, of_its_pins[target.name], of_its_extras[target.name])
            | _accepted_codes(target),
        )
        for target in solved
    ]
    findings = (*effect_notes(solved), *of_pins, *merge_findings(moves), *of_extras)
    return locked, (*findings, *unused_terms(spec, codes))


def notes_before(prepared: Iterable[Prepared], locked: Collection[LockedTarget] = ()) -> tuple[Finding, ...]:
    """Give the rules' findings on targets from before the resolution, without those that the exact pins of a locked
    torch have decided since."""
    pinned = {target.name for target in locked if target.pin("torch", "pip") or target.pin("pytorch", "conda")}
    return merge_findings(
        (
            target.name,
            [note for note in target.verdict.findings if target.name not in pinned or note.code not in OF_BUILDS],
        )
        for target in prepared
    )


def effect_notes(solved: Sequence[Solved]) -> tuple[Finding, ...]:
    """Report the effects of corrections on solved targets."""
    return merge_findings((target.name, [effect.note for effect in target.effects]) for target in solved)


def refused_pins(spec: Spec, solved: Sequence[Solved]) -> tuple[Infeasible, ...]:
    """Give the pins of solved targets that the rules refuse, with untried ways."""
    pairs = ((target.name, _explain((*target.judged, *of_retreats(spec, target)), target)) for target in solved)
    return refusals(merge_findings(pairs))


def of_retreats(spec: Spec, solved: Solved) -> tuple[Finding, ...]:
    """Judge the older releases that a solved target has in place of those given up."""
    findings = retreats(solved.gave_up, solved.pip, solved.prepared.inputs.python)
    return apply_acceptances(findings, spec.pip_terms(solved.prepared.target).accept)


def _explain(findings: Sequence[Finding], solved: Solved) -> tuple[Finding, ...]:
    requirements, cuda = solved.prepared.inputs.requirements, solved.prepared.target.cuda
    explained = explain_refusals(findings, solved.pip, requirements, cuda)
    return of_one_cause(explained, solved.pip, requirements)


def _codes(*findings: Iterable[Finding]) -> frozenset[str]:
    """Collect the codes of findings, accepted ones included, and the same of their packages."""
    every = [finding for group in findings for finding in group]
    return frozenset(
        {finding.code for finding in every}
        | {acceptance_key(finding.code, finding.package) for finding in every if finding.package}
    )


def _accepted_codes(solved: Solved) -> frozenset[str]:
    """Collect the accepted findings that resolving would have refused: of packages that are locked."""
    codes = (code for code, _ in solved.prepared.inputs.accept if code.startswith(("requires-python", "retreat")))
    return frozenset(code for code in codes if code.partition(":")[2] in {"", *solved.versions})


def _of_extras(spec: Spec, target: Target, locked: LockedTarget) -> tuple[Finding, ...]:
    return apply_acceptances(graph.findings(locked, _places(spec, target)), spec.pip_terms(target).accept)


def of_pins(spec: Spec, solved: Solved, releases: Callable[[Request], Releases]) -> tuple[Finding, ...]:
    """Judge the pins of a solved target. `releases` gives those of a package on its index, for a request."""
    prepared = solved.prepared
    target = LockedTarget(solved.name, prepared.inputs, solved.pins, provided=prepared.provided)
    pinned = pinned_versions(target, solved.builds)
    return judge_pins(
        spec, prepared.target, replace(pinned, releases=partial(_wheels_of_releases, releases, solved.request))
    )


def _wheels_of_releases(
    releases: Callable[[Request], Releases], request: Request | None, name: str
) -> Iterator[tuple[str, str]]:
    """Give the releases of a package on its index, each with the wheel that a request's target takes of it; none where
    the index doesn't answer."""
    if request is None:
        return
    with suppress(IndexFailure):
        for each in releases(request)(name):
            wheels = () if each.yanked else map(ReleaseFile, each.wheels)
            if file := choose_file(wheels, request.platform, request.full_python, request.glibc):
                yield each.version, file


def _places(spec: Spec, target: Target) -> dict[str, Place]:
    """Find where the spec asks for each package."""
    return {requirement_name(located.text): located.place for located in spec.pip_dependencies(target)}


_BY_INDEX = ("wrong-file", "wrong-hash", "wrong-index", "wrong-platform", "wrong-variant")
"""Codes of what an index alone can mend."""
_BY_PUBLISHERS = (
    REFUSED_PYTHON,  # its page says less than its METADATA
    # the METADATA of the file that is installed, which needn't be the one that uv read
    "requirement-unmet",
    "requirement-missing",
    "constraint-unmet",
    "nothing-asks",
    "installed-twice",
    "built-for-another",
    "wrong-build-environment",
)
"""Codes of what the packages of others may bring about."""


def _lock_target(solved: Solved) -> LockedTarget:
    """Judge a target with its pins, as every reader of the lock does."""
    target, inputs = solved.prepared.target, solved.prepared.inputs
    locked = LockedTarget(
        name=target.name,
        inputs=inputs,
        pins=tuple(sorted(solved.pins, key=lambda pin: (pin.kind, pin.name))),
        architectures=architectures(inputs.gpus),
        driver_floor=driver_floor(inputs.cuda, inputs.platform, inputs.gpus),
        provided=solved.prepared.provided,
        extras=solved.prepared.extras,
    )
    locked = _with_contents(locked, solved.builds)
    flaws = judge_target(locked, solved.prepared.shared)
    wrong = [flaw.message for flaw in flaws if flaw.code in WRONG_BUILDS]
    if wrong:
        cuda = f"CUDA {target.cuda}" if target.cuda else "no CUDA"
        listed = f" --cuda {target.cuda}" if target.cuda else ""
        raise Infeasible(
            f"{target.name} asks for {cuda}, but {'; '.join(wrong)}",
            hint=f"`envspec builds torch{listed}` lists the builds that fit; nothing was written",
            place=target.places.get("cuda", target.place),
        )
    for flaw in flaws:
        if flaw.code == "unasked-source" and (line := _find_url_line(locked, flaw.package)):
            raise SpecError(
                f"{target.name}: {flaw.message}",
                hint=f"if you trust it, add to [pip] dependencies: {line}",
            ).with_subjects(str(flaw.package))
    for flaw in flaws:
        if flaw.code in (*_BY_INDEX, *_BY_PUBLISHERS):
            raise _of_others(flaw, locked)
    if flaws:
        raise InternalError(
            f"{target.name}: the resolution contradicts itself: {'; '.join(flaw.message for flaw in flaws[:5])}",
            hint="nothing was written; please report this with the spec",
        )
    return locked


def _with_contents(target: LockedTarget, read: Mapping[str, WheelBuild]) -> LockedTarget:
    """Write on each wheel the packages that it overwrites files of, and its code for GPUs, as far as they were read."""
    order = (name for name in pip_order(target) if name in read)
    under = overwrites(shared_paths((name, read[name].paths or {}) for name in order))
    cuda = target.inputs.cuda
    code = {name: locked_code(build, cuda) for name, build in read.items()} if cuda else {}
    pins = (
        replace(pin, overwrites=tuple(sorted(under.get(pin.name, ()))), code=code.get(pin.name, ()))
        for pin in target.pins
        if pin.kind == "pip"
    )
    return replace(target, pins=(*(pin for pin in target.pins if pin.kind != "pip"), *pins))


def _of_others(flaw: Finding, target: LockedTarget) -> EnvspecError:
    # a requirement is that of the file that requires it
    asker = flaw.message.partition(" requires ")[0] if flaw.code.startswith("requirement-") else flaw.package
    pin, about = target.pin(asker or ""), target.pin(flaw.package or "")
    by = f" ({pin.artifact.file} of {pin.index})" if pin and pin.artifact else ""
    message = f"{target.name}: {flaw.message}{by}"
    if flaw.code in _BY_INDEX:
        return IndexFailure(message, hint="report this to whoever runs the index").with_subjects(flaw.package or "")
    refused = Infeasible(message).with_subjects(*filter(None, [flaw.package or asker]))
    refused.code, refused.targets = flaw.code, (target.name,)
    if flaw.package in dict(target.provided):
        refused.hint, refused.ways = OTHER_BASE, (Way(replaced=(flaw.package,)),)
    else:
        refused.ways = tuple(_ways_out(flaw, about, about or pin))
    return refused


def _ways_out(flaw: Finding, pin: Pin | None, decisive: Pin | None) -> Iterator[Way]:
    """Yield the changes of the spec that may mend what packages say of each other. `pin` is the package's own."""
    code, name = flaw.code, flaw.package or requirement_name(flaw.bound or "")
    by_conda = decisive is not None and decisive.kind == "conda"
    if code in (REFUSED_PYTHON, "built-for-another"):
        yield Way(accept=((code, name),))
    elif code in ("requirement-missing", "nothing-asks"):
        yield Way(conda=name) if by_conda else Way(more=(name,))
    elif code == "requirement-unmet" and pin is not None and not by_conda:
        yield Way(overrides=(f"{name}=={pin.version}",))
    elif code == "installed-twice":
        yield Way(without=(name,))


def _find_url_line(locked: LockedTarget, package: str | None) -> str | None:
    """Find the URL by which a package requires another, as a line for the spec."""
    for line in (line for pin in locked.pins for line in pin.dependencies if pin.kind == "pip" and "@" in line):
        requirement = published_requirement(line)
        if requirement.url and canonical_name(requirement.name) == package:
            return f'"{package} @ {redact(requirement.url)}"'
    return None
