"""The locking of a spec, from the parsed spec to the new lock, with its I/O passed in."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event, Timer
from time import monotonic
from typing import NoReturn

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.sdist.build_imports import BuildLacks
from envspec.base.errors import AnswerNo, EnvspecError, InputError, Place, SpecError, ToolError, parts, together
from envspec.base.finding import Finding, carrying
from envspec.facts.python_builds import newest_build
from envspec.facts.torch_builds import build_bounds
from envspec.lock.inputs import SpecCase, spec_case
from envspec.lock.inventory import Inventory
from envspec.lock.judge import flaws_of
from envspec.lock.model import (
    BuildPin,
    Lock,
    LockedBase,
    LockedCorrection,
    LockedTarget,
    Pin,
    Publisher,
)
from envspec.lock.pinned import with_fullest_code
from envspec.lock.rules.builds import NUMPY, bounds_of, bounds_on_numpy, is_shared, unlike_target
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.resolve.pip.build_environment import BuildEnvironments, BuildWanted, against_lock
from envspec.resolve.pip.sources_needed import BuildNeeds, NeededSource, SourcesNeeded, names_needed, with_lines
from envspec.resolve.workflow.accept import accept, effect_notes, notes_before, of_pins, refused_pins
from envspec.resolve.workflow.base import base_findings
from envspec.resolve.workflow.keep import Kept, Upgrade, preserve
from envspec.resolve.workflow.notices import flaw_warnings, misspelt_names, unused_sources
from envspec.resolve.workflow.obstacles import SOLVES, Trial, all_in_the_way, is_obstacle
from envspec.resolve.workflow.prepare import NotAfter, Prepared, prepare
from envspec.resolve.workflow.pythons import PACKAGE, choose_pythons
from envspec.resolve.workflow.solve import Resolvers, Solved, solve
from envspec.spec.model import Spec, Target
from envspec.spec.targets import refuse_unknown_targets

# The build environments of a lock's sources: those of the old lock that still hold, and new ones for the others.


def with_build_environments(
    spec: Spec,
    solved: Sequence[Solved],
    old: Lock | None,
    upgrade: Upgrade,
    resolve: Callable[[Sequence[BuildWanted]], BuildEnvironments],
    flaws: Sequence[Finding] = (),
) -> tuple[tuple[Solved, ...], tuple[Finding, ...]]:
    """Give solved targets with the build environments of their sources, and notes on builds that couldn't be asked.

    Environments of the old lock stay, except for packages that can't be right (`flaws`). Raises BuildNeeds for builds
    that import undeclared modules, and what `resolve` raises.
    """
    wrong = {(target, flaw.package) for flaw in flaws for target in flaw.targets}
    requests: dict[tuple[str, Pin], BuildWanted] = {}
    builds: dict[tuple[str, Pin], tuple[BuildPin, ...]] = {}
    for target in solved:
        against_lock = spec.terms_of(target.name).built_against_lock
        for pin in (pin for pin in target.pip if not pin.is_wheel):
            key, request = (target.name, pin), _build_request(target, pin)
            if pin.name in against_lock:
                if (sees := _list_visible(spec, target, pin.name)) is not None:
                    requests[key] = replace(request, sees=sees)
                continue
            before = None if (target.name, pin.name) in wrong else _old_build(old, target, pin, upgrade)
            if before is not None:
                builds[key] = before
                request = replace(request, sees=tuple((wheel.name, wheel.version) for wheel in before))
            requests[key] = request
    answers, notes = resolve(tuple(dict.fromkeys(requests.values())))
    lacking: dict[tuple[Pin, BuildLacks], list[str]] = {}
    for (name, pin), request in requests.items():
        made = answers.get(request)
        if isinstance(made, BuildLacks):
            lacking.setdefault((pin, made), []).append(name)
        elif request.sees is None:
            _refuse_unlike(request, made or ())
            if made is not None:
                builds[name, pin] = made
    if lacking:
        needs = (_build_needs(spec, pin, lacks, names) for (pin, lacks), names in lacking.items())
        raise together(with_lines(needs))
    of_isolated = {key for key, request in requests.items() if key in builds or request.sees is None}
    return tuple(
        replace(
            target,
            pip=tuple(
                replace(pin, built_with=builds.get((target.name, pin))) if (target.name, pin) in of_isolated else pin
                for pin in target.pip
            ),
        )
        for target in solved
    ), notes


def _list_visible(spec: Spec, solved: Solved, name: str) -> tuple[tuple[str, str], ...] | None:
    """List the packages that a build against the lock sees, with their versions: all, or those that the spec's lines
    lead to. None beside conda's, whose names are others."""
    terms = spec.terms_of(solved.name)
    if solved.conda:
        return None
    if name in terms.no_build_isolation:
        return tuple(solved.versions.items())
    pins = {pin.name: pin for pin in solved.pip}
    waiting = [requirement_name(line.text) for line in terms.build_dependencies[name]]
    seen: dict[str, str] = {}
    for required in waiting:
        if required in pins and required not in seen:
            seen[required] = pins[required].version
            waiting += map(requirement_name, pins[required].dependencies)
    return tuple(seen.items())


def _build_needs(spec: Spec, pin: Pin | NeededSource, lacks: BuildLacks, targets: Sequence[str]) -> BuildNeeds:
    """Make the error for a build of some targets, with the table of the spec that the line belongs to: the target's own
    where not all need it."""
    whole = spec.pip.terms.build_dependencies
    own = [target for target in targets if f"targets.{target}" in spec.places]
    tables = own if len(own) == len(targets) < len(spec.targets) and pin.name not in whole else ()
    terms = [target.terms for name in tables if (target := spec.target(name))] or [spec.pip.terms]
    before = {located.text for name in targets for located in spec.terms_of(name).build_dependencies.get(pin.name, ())}
    names = set(map(requirement_name, before))
    line = (*sorted(before), *(requirement for requirement in lacks.line if requirement_name(requirement) not in names))
    listed = any(term.build_dependencies for term in terms)
    return BuildNeeds(pin, replace(lacks, line=line), targets, tables, listed=listed)


def _old_build(old: Lock | None, solved: Solved, pin: Pin, upgrade: Upgrade) -> tuple[BuildPin, ...] | None:
    """Find what the old lock built the same source with, for the same machine; None where that is to be resolved."""
    target = old.target(solved.name) if old else None
    before = target.pin(pin.name, "pip") if target else None
    if target is None or before is None or upgrade.everything or pin.name in upgrade.packages:
        return None
    was, now = target.inputs, solved.prepared.inputs
    same_machine = (was.platform, was.python, was.glibc) == (now.platform, now.python, now.glibc)
    same_source = (before.artifact, before.git, before.url) == (pin.artifact, pin.git, pin.url)
    pins = {installed.name: installed for installed in solved.pins}
    unlike = any(unlike_target(wheel, pins, now.cuda) for wheel in before.built_with or ())
    return before.built_with if same_machine and same_source and not unlike else None


def _refuse_unlike(build: BuildWanted, wheels: Sequence[BuildPin]) -> None:
    """Raise SpecError where a build would be another than the target's: what the judge of locks refuses."""
    pins = {pin.name: pin for pin in build.shared}
    for wheel in wheels:
        if why := unlike_target(wheel, pins, build.request.cuda):
            message = (
                f"the build of {build.pin.name} {build.pin.version} requires {wheel.name} {wheel.version}, but {why}"
            )
            raise SpecError(message, hint=against_lock(build.pin.name)).with_subjects(build.pin.name)


def _build_request(solved: Solved, pin: Pin) -> BuildWanted:
    assert solved.request is not None  # it has a package
    prepared = solved.prepared
    # what a spec states of a source is there to spare a build
    stated = any(entry.name == pin.name for entry in prepared.inputs.metadata)
    runs = (pin.is_inert or pin.name in prepared.shared.allow_source) and not stated
    shared = tuple(locked for locked in solved.pins if is_shared(locked))
    numpy = next((bounds_on_numpy(locked.version) for locked in shared if locked.name == NUMPY), ())
    bounds = (*build_bounds(solved.versions.get("torch")), *bounds_of(shared))
    return BuildWanted(pin, solved.request, runs, bounds, numpy, shared)


def with_publishers(
    solved: Sequence[Solved],
    old: Lock | None,
    ask: Callable[[Iterable[Pin]], tuple[Mapping[Pin, Publisher], tuple[Finding, ...]]],
) -> tuple[tuple[Solved, ...], tuple[Finding, ...]]:
    """Give solved targets with the publishers of their pip pins, and a note where an index doesn't answer."""
    before = {(pin.index, pin.artifact): pin.publisher for target in old or () for pin in target.pins if pin.publisher}
    pins = {pin for target in solved for pin in target.pip if pin.artifact is not None and pin.url is None}
    known = {pin: publisher for pin in pins if (publisher := before.get((pin.index, pin.artifact))) is not None}
    publishers, notes = ask(sorted(pins - known.keys(), key=lambda pin: (pin.index, pin.name, pin.version)))
    known.update(publishers)
    return tuple(
        replace(target, pip=tuple(replace(pin, publisher=known[pin]) if pin in known else pin for pin in target.pip))
        for target in solved
    ), notes


def inspection_findings(solved: Sequence[Solved], preserved: Kept) -> Iterator[Finding]:
    """Name the targets whose wheels the spec leaves unread, and the old lock's rows that the wheels don't confirm."""
    unread = [target.name for target in solved if target.pip and not target.prepared.inputs.inspect]
    if unread:
        message = "wheels aren't read (inspect = false): what their METADATA leaves out may break the environment"
        yield Finding("info", "not-inspected", message, targets=tuple(unread))
    for lost in dict.fromkeys(row for target in solved for row in _lost_corrections(target, preserved)):
        yield Finding(
            "warning",
            "correction-unfounded",
            f"the old lock says that {lost.package} {lost.version} needs {lost.constraint}, and {lost.file} doesn't say"
            " so; envspec leaves it out",
        )


def _lost_corrections(target: Solved, preserved: Kept) -> Iterator[LockedCorrection]:
    if not target.prepared.inputs.inspect:
        return
    read = {(row.package, row.sha256, row.constraint) for row in target.read}
    for lost in target.rows_of_pins(row for row, _ in preserved.read.get(target.name, ())):
        if (lost.package, lost.sha256, lost.constraint) not in read and target.counts(lost):
            yield lost


class RelockRequest(Struct, frozen=True):
    """A spec to lock again.

    old        the old lock, whose pins stay where they still satisfy the spec
    upgrade    the pins of it that may change
    only       the targets to lock again, all by default; the others keep their pins of `old`
    not_after  releases beyond it are left out, whatever the spec's `exclude-newer` allows
    first      another tool's pins, by the spec's targets: they count in place of the old lock's, where they fit
    inventories  the inventories of the spec's base, by platform
    allows     the caller allows needed sources and locks the spec again: no other way is looked for
    """

    spec: Spec
    old: Lock | None = None
    upgrade: Upgrade = field(default_factory=Upgrade)
    only: Collection[str] = ()
    not_after: NotAfter | None = None
    first: Lock | None = None
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    allows: bool = False


def relock(request: RelockRequest, resolvers: Resolvers) -> tuple[Lock, tuple[Finding, ...]]:
    """Lock a spec again; give the lock and the findings on it. The conda half is solved first: its packages count for
    pip.

    Corrections read from wheels stand in the lock where they shaped it. The old lock's rows count once their wheels
    confirm them.

    The GPU rules judge every target before anything is resolved, and the exact pins afterwards. All refusals are one
    error. It proposes only changes of the spec that give a lock.

    Raises Infeasible for targets that the rules refuse, SpecError for a correction that doesn't exist, InputError for a
    wrong `only`, Infeasible when a CPU build or one of another CUDA got in, InternalError when the result contradicts
    itself, and what the resolver raises: each with the findings up to it.
    """
    with carrying() as findings:
        lock = _relock(request, resolvers, findings)
    return lock, tuple(map(_with_ways_of_machines, findings))


def _relock(request: RelockRequest, resolvers: Resolvers, findings: list[Finding]) -> Lock:
    begun = monotonic()
    old, move, not_after = request.old, request.upgrade, request.not_after
    with _placing(request.spec):
        case = spec_case(request.spec)
    flaws = flaws_of(old, case) if old else ()
    if old is not None and (request.only or not (move.everything or PACKAGE in move.packages)):
        case = case.beside(old)
    targets = _choose_targets(case, old, request.only, flaws)
    findings += flaw_warnings(flaws)
    bounds = (case.shared.exclude_newer, not_after.moment if not_after else None)
    own = case.shared.brings_python
    with _placing(case.spec):
        pythons, without_build = choose_pythons(case.targets, old, move, flaws, bounds, needed=own)
    findings += without_build
    spec = replace(case.spec, python_builds={python.platform: python.version for python in (pythons if own else ())})
    case = replace(case, spec=spec)
    preserved = preserve(request.first, Upgrade()) if request.first else preserve(old, move, flaws)
    run = _Relocking(request, resolvers, case, frozenset(target.name for target in targets), flaws, bounds, begun)

    ready, before, refused = run.prepare(targets)
    solved = tuple[Solved, ...]()
    try:
        solved = solve(ready, resolvers, preserved, partial(of_pins, spec, releases=resolvers.releases))
        refused = (*refused, *run.refusals(spec, solved))
    except EnvspecError as error:
        if is_obstacle(error):
            refused = (*refused, *parts(error))
        elif not refused:
            error.findings = before
            error.place = error.place or _place_of(spec, error)
            raise
    if refused:
        sources = {name for error in refused for name in names_needed(error)}
        of_sources = (finding for target in solved for finding in target.judged if finding.package in sources)
        findings += effect_notes(solved)
        findings += before
        findings += (_with_ways_of_machines(finding) for finding in of_sources if finding.severity == "warning")
        run.refuse(refused, solved)

    by_conda = {target.name: target.conda for target in solved}
    of_wheels = tuple(inspection_findings(solved, preserved))
    solved, notes = with_publishers(solved, old, resolvers.publishers)
    findings += notes
    try:
        solved, anew, accepted = run.finish(spec, solved)
    except EnvspecError as error:
        if not any(part.ways for part in parts(error)):
            raise
        findings += before
        run.refuse(parts(error), solved)
    with _placing(spec):
        findings += resolvers.findings((*of_wheels, *accepted))
    findings += resolvers.conda.findings(by_conda) if resolvers.conda is not None else ()
    findings += (*notes_before(ready, anew), *of_wheels, *accepted)
    old_names = {target.name for target in spec.targets} - {target.name for target in anew}
    locked = with_fullest_code((*anew, *(target for target in old or () if target.name in old_names)))
    findings += (*unused_sources(spec, locked), *misspelt_names(spec, locked))
    read = {row for target in solved for row in target.shaped}
    pins = [pin for target in locked if target.name in old_names for pin in target.pins]
    read |= {row for row in (old.corrections if old else ()) if any(map(row.is_of, pins))}
    in_order = tuple(sorted(locked, key=lambda target: target.name))
    lock = Lock(spec.name, case.shared, in_order, corrections=tuple(sorted(read)), pythons=pythons)
    if case.shared.base is None:
        return lock
    findings += base_findings(anew, request.inventories)
    bases = tuple(
        LockedBase(name, hashlib.sha256(inventory.text.encode()).hexdigest(), inventory.digest)
        for name, inventory in sorted(request.inventories.items())
    )
    return replace(lock, bases=bases).with_inventories(request.inventories)


class _Relocking(Struct, frozen=True):
    """A locking of a spec, with all that is known before its targets are solved.

    case    the spec with the builds of Python that were chosen
    names   the targets to lock again
    bounds  the moments after which no release counts
    begun   the moment when it began, by a monotonic clock
    """

    request: RelockRequest
    resolvers: Resolvers
    case: SpecCase
    names: frozenset[str]
    flaws: tuple[Finding, ...]
    bounds: tuple[str | None, ...]
    begun: float

    def refusals(self, spec: Spec, solved: Sequence[Solved]) -> tuple[EnvspecError, ...]:
        """Give the rules' refusals of solved targets, and the sources that the spec would have to allow."""
        needed = [target.needed for target in solved if target.needed is not None][:1]
        return (*refused_pins(spec, solved), *needed)

    def prepare(
        self, targets: tuple[Target, ...]
    ) -> tuple[Sequence[Prepared], tuple[Finding, ...], tuple[EnvspecError, ...]]:
        """Prepare targets; give those that rules don't refuse, the findings on all, and the refusals."""
        request = self.request
        try:
            ready = prepare(self.case, targets, request.not_after, request.inventories)
            return ready, notes_before(ready), ()
        except EnvspecError as error:
            if not is_obstacle(error):
                error.place = error.place or _place_of(self.case.spec, error)
                raise
            # the other targets have their own refusals
            refused = parts(error)
            rest = [target for target in targets if not any(target.name in part.targets for part in refused)]
            alone = all(part.targets for part in refused)
            ready = prepare(self.case, rest, request.not_after, request.inventories) if rest and alone else ()
            return ready, error.findings, refused

    def finish(
        self, spec: Spec, solved: Sequence[Solved]
    ) -> tuple[tuple[Solved, ...], tuple[LockedTarget, ...], tuple[Finding, ...]]:
        """Add the build environments of solved targets, and accept them into a lock. Raises what these raise."""
        request = self.request
        with _placing(spec):
            solved, notes = with_build_environments(
                spec, solved, request.old, request.upgrade, self.resolvers.builds, self.flaws
            )
        locked, findings = accept(spec, solved)
        return solved, locked, (*notes, *findings)

    def attempt(self, same: Collection[str], changed: Spec, seconds: float) -> tuple[EnvspecError, ...] | None:
        """Try to lock a changed spec. Gives its refusals, or None where time runs out or the lock leaves something far
        behind. Targets of the `same` names had no refusal: they are solved again only where they changed."""
        spec, over = self.case.spec, Event()
        changed = self._with_builds(changed)
        new_case = spec_case(changed)
        if new_case.shared != self.case.shared or changed.python_builds != spec.python_builds:
            same = ()

        def give_up() -> None:
            over.set()
            self.resolvers.stop()

        def judge_in_time(solved: Solved) -> tuple[Finding, ...]:
            if over.is_set():
                raise ToolError("the time for ways is over")
            return of_pins(changed, solved, self.resolvers.releases)

        end = Timer(seconds, give_up)
        end.start()
        try:
            anew = [
                target
                for target in changed.targets
                if target.name in self.names
                and not (
                    target.name in same
                    and target == spec.target(target.name)
                    and new_case.targets[target.name] == self.case.targets[target.name]
                )
            ]
            ready = prepare(new_case, anew, self.request.not_after, self.request.inventories)
            solved = solve(ready, self.resolvers, Kept(), judge_in_time)
            further = self.refusals(changed, solved)
            if not further:
                self.finish(changed, solved)
            return None if any(map(self._is_behind, solved)) else further
        except (AnswerNo, InputError) as error:
            return parts(error)
        except EnvspecError:
            return None
        finally:
            end.cancel()

    def _with_builds(self, changed: Spec) -> Spec:
        """Give a changed spec with the builds of another Python, where it asks for another."""
        spec = self.case.spec
        if not self.case.shared.brings_python or (changed.python, changed.python_range) == (
            spec.python,
            spec.python_range,
        ):
            return changed
        before = min((bound for bound in self.bounds if bound is not None), default=None)
        platforms = {target.platform for target in changed.targets}
        builds = {
            platform: newest_build(changed.python, platform, before, changed.python_range or "")
            for platform in platforms
        }
        return replace(changed, python_builds={name: build.version for name, build in builds.items() if build})

    def _is_behind(self, solved: Solved) -> bool:
        """Return whether a target leaves something far behind that the spec asks for as it stands."""
        before, request = self.case.targets[solved.name], solved.request
        if request is None:
            return False
        lines = {"requirements": before.requirements, "constraints": before.constraints}
        return self.resolvers.is_behind(replace(request, **lines, own=(), cuda=before.cuda), solved.versions)

    def refuse(self, refused: Sequence[EnvspecError], solved: Sequence[Solved]) -> NoReturn:
        """Raise all refusals of the lock as one error, with the ways that were tried."""
        spec = self.case.spec
        same = {target.name for target in solved} - {name for error in refused for name in error.targets}
        allowed = self.request.allows and any(map(names_needed, refused))
        attempt = partial(self.attempt, same)
        trial = Trial(spec, tuple(sorted(self.names)), attempt, monotonic, self.begun, 0 if allowed else SOLVES)
        error = all_in_the_way(refused, trial)
        error = together((*parts(error), *with_lines(_needs_of_builds(spec, parts(error)))))
        for part in parts(error):
            part.place = part.place or _place_of(spec, part)
        raise error from None


def _needs_of_builds(spec: Spec, refused: Iterable[EnvspecError]) -> Iterator[BuildNeeds]:
    """Yield what builds need of the sources that a spec doesn't allow yet: allowed alone, they would be refused."""
    for error in refused:
        for source in error.needed if isinstance(error, SourcesNeeded) else ():
            targets = [name for name in source.targets if source.name not in spec.terms_of(name).built_against_lock]
            if source.lacks is not None and targets:
                yield _build_needs(spec, source, source.lacks, targets)


def _with_ways_of_machines(finding: Finding) -> Finding:
    """Tell of a finding's ways those alone that need no solution: nothing is solved for these."""
    return replace(finding, ways=tuple(way for way in finding.ways if way.is_of_machines)).tell_ways()


@contextmanager
def _placing(spec: Spec) -> Iterator[None]:
    """Give what is refused meanwhile its place in the spec."""
    try:
        yield
    except EnvspecError as refused:
        for part in parts(refused):
            part.place = part.place or _place_of(spec, part)
        raise


def _place_of(spec: Spec, refused: EnvspecError) -> Place | None:
    """Find where the spec speaks of what an error is about: a key, or the first of its packages. Of a refusal that is
    about none of the spec's, the target that it is said of. None for anything else that failed outside."""
    if refused.key in spec.places:
        return spec.places[refused.key]
    named = [target for target in spec.targets if target.name in refused.targets]
    targets = named or spec.targets
    terms = [spec.pip_terms(target) for target in targets]
    lines = [located for target in targets for located in spec.pip_dependencies(target)]
    lines += [located for term in terms for located in (*term.overrides, *term.constraints)]
    for name in map(canonical_name, refused.requested):
        for located in lines:
            if requirement_name(located.text) == name:
                return located.place
    if not isinstance(refused, AnswerNo | InputError):
        return None
    return named[0].place if named else Place(spec.path)


def _choose_targets(
    case: SpecCase, old: Lock | None, only: Collection[str], flaws: Sequence[Finding]
) -> tuple[Target, ...]:
    """Pick the targets to lock again: the requested ones, and those whose pins can't be right."""
    spec = case.spec
    if not only:
        return spec.targets
    known = [target.name for target in spec.targets]
    refuse_unknown_targets(sorted(only), known, spec.path)
    if old is not None and old.inputs != case.shared and set(only) != set(known):
        raise InputError(
            f"{spec.path} changed in a part that all targets share, so they must be locked together",
            hint="leave out --target",
        )
    failing = {name for flaw in flaws for name in flaw.targets} - set(only)
    return (
        *(target for target in spec.targets if target.name in only),
        *(target for target in spec.targets if target.name in failing),
    )
