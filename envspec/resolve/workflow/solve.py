"""The solving of prepared targets to exact pins: the conda half first, because its packages count for pip."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import InternalError
from envspec.base.finding import Finding
from envspec.facts.corrections import Correction, Corrections, of_wheel
from envspec.facts.cuda_stack import TORCH, stack_of
from envspec.facts.minimum import capabilities
from envspec.lock.model import LockedCorrection, LockedTarget, Pin, Publisher
from envspec.net.index_proxy.releases import is_older
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.pip.build_environment import BuildEnvironments, BuildWanted
from envspec.resolve.pip.newest import Releases
from envspec.resolve.pip.request import Preferences, Request, provided_packages, request_for
from envspec.resolve.pip.sources_needed import SourcesNeeded
from envspec.resolve.workflow.bounded import GivenUp, sacrifices
from envspec.resolve.workflow.keep import Kept, preferences_of
from envspec.resolve.workflow.notices import Effect, broken_corrections, collect_bounds, effects
from envspec.resolve.workflow.prepare import Prepared
from envspec.rules.wheel_code import WheelBuild
from envspec.spec.way import Way


class Resolver(Protocol):
    """A resolver of the pip half. `keep` holds, by target, versions to keep where they still fit. Gives the targets
    with their pins, and the sources that those need."""

    def resolve(
        self, targets: Mapping[str, Solved], keep: Mapping[str, Preferences]
    ) -> tuple[Mapping[str, Solved], SourcesNeeded | None]: ...


class Inspector(Protocol):
    """A reader of bounds between packages that wheels have and their METADATA lacks."""

    def recalls(self, row: LockedCorrection, pin: Pin) -> bool:
        """Return whether a lock's row is known to stand in the wheel of its pin. Nothing is fetched."""

    def read(self, pins: Sequence[Pin], about: Collection[tuple[str, str]] = ()) -> Sequence[LockedCorrection]:
        """Give the bounds in a solution's wheels that the solution breaks, and those of the packages and bounds in
        `about` that hold."""

    def builds(
        self, pins: Sequence[Pin], cuda: str | None, platform: str, capabilities: Collection[str]
    ) -> Mapping[str, WheelBuild]:
        """Give the GPUs and CUDA that a solution's wheels are built for, by package, where that could matter for these
        GPUs, and the paths that several of its packages have."""


class CondaHalf(Protocol):
    """A resolver of the conda half. `keep` holds a package's version and build; `findings` are those of `Resolvers`."""

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...

    def findings(self, pins: Mapping[str, tuple[Pin, ...]]) -> Sequence[Finding]: ...


def _none(request: object) -> tuple[Mapping[Any, Any], tuple[Finding, ...]]:
    """Answer nothing."""
    return {}, ()


class Resolvers(Struct, frozen=True):
    """The resolvers of a lock's halves, and the readers that their answers need.

    conda       None for a spec without conda dependencies
    inspect     reads bounds between packages that wheels have and their METADATA lacks; None reads nothing
    builds      resolves the build environments of sources; without it, a new lock has only those of the old one
    publishers  asks the indexes for the pins' publishers; likewise
    releases    gives, for a request, the releases of a package on the index that it comes from
    findings    gives the resolver's findings on the last solution, beside the given ones
    is_behind   returns whether versions leave a package of the request's own far behind; likewise
    stop        ends the programs of the current question
    """

    pip: Resolver
    conda: CondaHalf | None = None
    inspect: Inspector | None = None
    builds: Callable[[Sequence[BuildWanted]], BuildEnvironments] = _none
    publishers: Callable[[Iterable[Pin]], tuple[Mapping[Pin, Publisher], tuple[Finding, ...]]] = _none
    findings: Callable[[Sequence[Finding]], Sequence[Finding]] = lambda known: ()
    releases: Callable[[Request], Releases] = lambda request: lambda name: ()
    is_behind: Callable[[Request, Mapping[str, str]], bool] = lambda request, versions: False
    stop: Callable[[], object] = lambda: None


def _nothing(solved: Solved) -> tuple[Finding, ...]:
    """Refuse nothing."""
    return ()


class TargetReview(Struct, frozen=True):
    """The readers and rules by which a target looks at its answers.

    judge    refuses pins, of which others may be had
    inspect  reads the wheels' bounds; None reads nothing
    locked   the old lock's rows of bounds read from wheels
    keep     the versions of the old lock
    """

    judge: Callable[[Solved], tuple[Finding, ...]]
    inspect: Inspector | None = None
    locked: tuple[LockedCorrection, ...] = ()
    keep: Preferences = Preferences()


class Solved(Struct, frozen=True, dict=True):
    """A target and its pins so far.

    prepared     its inputs
    corrections  of published metadata, as the pip half was solved with them
    looking      the readers and rules by which it looks at answers
    constraints  PEP 508 lines of corrections that can't be shown as METADATA: of git, of a direct URL
    gave_up      pins of earlier solutions that can't work on the target; their bounds hold in this one
    before       the solution before the last pins were given up
    refusals     the solutions with pins that were given up
    read         corrections that were read from wheels, in this solution or an earlier one
    builds       the GPUs and CUDA that its wheels are built for, by package, as far as they were read
    cleared      older versions whose wheels lack a bound of the newer ones: name, version and bound
    hopeless     it has no solution without the pins of this one that the rules refuse
    toolless     its solution without the requirements for the project's build alone, which come last
    conda        the pins of its conda half
    pip          the pins of its pip half
    judged       the rules' findings on its pins
    needed       the sources that the spec would have to allow for them, of all targets
    """

    prepared: Prepared
    corrections: Corrections
    looking: TargetReview = TargetReview(_nothing)
    constraints: tuple[str, ...] = ()
    gave_up: tuple[GivenUp, ...] = ()
    before: Solved | None = None
    refusals: int = 0
    hopeless: bool = False
    read: tuple[LockedCorrection, ...] = ()
    builds: Mapping[str, WheelBuild] = field(default_factory=dict)
    cleared: frozenset[tuple[str, str, str]] = frozenset()
    toolless: Solved | None = None
    conda: tuple[Pin, ...] = ()
    pip: tuple[Pin, ...] = ()
    judged: tuple[Finding, ...] = ()
    needed: SourcesNeeded | None = None

    @property
    def name(self) -> str:
        return self.prepared.name

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The pins of both halves."""
        return (*self.conda, *self.pip)

    @cached_property
    def request(self) -> Request | None:
        """Make the request of the pip half; None without one."""
        prepared = self.prepared
        if not prepared.inputs.requirements:
            return None
        inputs = prepared.inputs
        if self.toolless is None and (without := self._without_tools):
            inputs = replace(inputs, requirements=without)
        request = request_for(
            prepared.shared,
            inputs,
            tuple(sorted({*prepared.constraints, *self.constraints})),
            self._provided,
            self.corrections,
            prepared.exempt,
            tuple(sorted({name for release in self.gave_up if (name := release.final)})),
            tuple(sorted(set(self._bounds))),
        )
        return replace(request, extras=prepared.extras, direct=prepared.direct)

    @property
    def _without_tools(self) -> tuple[str, ...]:
        """The requirements without those of the project's build alone; none where it has no such, or no others."""
        tools = {line for line, _ in self.prepared.tools}
        lines = self.prepared.inputs.requirements
        without = tuple(line for line in lines if line not in tools)
        return without if without != lines else ()

    @property
    def preferences(self) -> Preferences | None:
        """The versions to keep in place of the last lock's: those without the project's build tools, beside these."""
        if self.toolless is None:
            return None
        own = preferences_of(LockedTarget(self.name, self.prepared.inputs, self.toolless.pip))
        before = self.looking.keep
        return replace(own, last={**before.last, **own.versions}).over(before)

    def review(self, pins: tuple[Pin, ...]) -> Solved:
        """Give the target with the first new term that an answer shows, which makes it another request: broken
        corrections, bounds in its wheels, refused pins that others may replace, and last the requirements of the
        project's build; else with the answer. Raises Unsatisfiable where a build tool takes something back."""
        solved = replace(self, pip=pins)
        if self.toolless is not None:
            _refuse_setback(self, pins)
        for look in (Solved.with_corrections, Solved.inspect_wheels, Solved.with_builds, Solved.judge):
            solved = look(solved)
            if solved.request != self.request:
                return solved
        return replace(solved, toolless=solved) if self.toolless is None and self._without_tools else solved

    def without_refusals(self) -> Solved | None:
        """Give the target as it was before the rules' refusals bounded it, where those leave no answer."""
        before = self.before
        return replace(before, hopeless=True) if before and before.gave_up != self.gave_up else None

    @property
    def _provided(self) -> tuple[tuple[str, str], ...]:
        """The packages that are there for pip already: conda's, or the base's."""
        return self.prepared.provided or provided_packages(self.conda)

    @property
    def _bounds(self) -> tuple[str, ...]:
        return tuple(str(release.finding.bound) for release in self.gave_up)

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """The versions of pip's packages, and of those that conda or the base provides to them."""
        return {
            **dict(self._provided),
            **{pin.name: pin.version for pin in self.pip},
        }

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """Give the effects of corrections on its pip half."""
        if self.request is None:
            return ()
        inputs = self.prepared.inputs
        constraints = (*inputs.constraints, *self.prepared.constraints, *self._bounds)
        known = collect_bounds(self.pip, inputs.requirements, constraints, self.request.overrides)
        # of a package's wheels the pinned one speaks, not a newer one that was given up
        unpinned = {self._row(row) for row in self.read} - {self._row(pin) for pin in self.rows_of_pins(self.read)}
        did = effects(self.request.corrections, self.pip, self.versions, known)
        return tuple(effect for effect in did if effect.correction not in unpinned)

    @property
    def shaped(self) -> tuple[LockedCorrection, ...]:
        """Give the corrections read from its wheels that had an effect on its pip half."""
        did = {effect.correction for effect in self.effects}
        edges = {(pin.name, line) for pin in self.pip for line in pin.solver.added}
        rows = self.rows_of_pins(self.read)
        return tuple(row for row in rows if self._row(row) in did or (row.package, row.constraint) in edges)

    def rows_of_pins(self, rows: Iterable[LockedCorrection]) -> tuple[LockedCorrection, ...]:
        """Give the rows whose wheels are pinned."""
        return tuple(row for row in rows if any(map(row.is_of, self.pip)))

    @property
    def _inspect(self) -> Inspector | None:
        """The reader of its wheels, where the spec lets them be read."""
        return self.looking.inspect if self.prepared.inputs.inspect else None

    def inspect_wheels(self) -> Solved:
        """Give the target with the bounds in its wheels that its solution breaks, and with the old lock's rows that
        they confirm; the target itself where none is new. Raises what reading wheels raises."""
        if (inspect := self._inspect) is None:
            return self
        rows = [row for row in (*self.looking.locked, *self.read) if self.counts(row)]
        read = inspect.read(self.pins, frozenset((row.package, row.constraint) for row in rows))
        more = [row for row in read if self.counts(row) and row not in self.read]
        stated = {(row.package, row.version, row.constraint) for row in read}
        now = {(row.package, self.versions[row.package], row.constraint) for row in self.read if self._has(row)}
        cleared = self.cleared | now - stated
        return self.with_read_corrections(more, cleared) if more or cleared != self.cleared else self

    def with_builds(self) -> Solved:
        """Give the target with the GPUs and CUDA that its wheels are built for. Raises what reading wheels raises."""
        if (inspect := self._inspect) is None:
            return self
        inputs, gpus = self.prepared.inputs, capabilities(self.prepared.target.gpus)
        return replace(self, builds=inspect.builds(self.pins, inputs.cuda, inputs.platform, gpus))

    def replay(self, locked: Iterable[tuple[LockedCorrection, Pin]]) -> Solved:
        """Give the target with those rows of the old lock that are known to stand in the wheels that it pinned."""
        if (inspect := self._inspect) is None:
            return self
        return self.with_read_corrections(row for row, pin in locked if self.counts(row) and inspect.recalls(row, pin))

    def with_read_corrections(
        self, more: Iterable[LockedCorrection], cleared: frozenset[tuple[str, str, str]] = frozenset()
    ) -> Solved:
        """Give the target with corrections that were read from wheels."""
        known = replace(self, read=tuple(sorted({*self.read, *more})), cleared=cleared)
        return replace(known, corrections=self.corrections.with_read(map(known._row, known.read)))

    def _has(self, row: LockedCorrection) -> bool:
        return any(pin.name == row.package for pin in self.pip)

    def counts(self, row: LockedCorrection) -> bool:
        """Return whether the spec lets a correction that was read from a wheel count."""
        return self._row(row).name not in self.prepared.shared.without_corrections

    def _row(self, row: LockedCorrection) -> Correction:
        but = sorted(v for name, v, bound in self.cleared if (name, bound) == (row.package, row.constraint))
        return of_wheel(row.package, row.version, row.constraint, row.reason, but)

    def with_corrections(self) -> Solved:
        """Give the target with the corrections that its solution breaks; itself where it breaks none."""
        if self.request is None:
            return self
        known, off = self.request.corrections, self.prepared.shared.without_corrections
        overridden = set(map(requirement_name, self.request.overrides))
        broken = tuple(
            correction
            for correction in broken_corrections(known, self.pip, self.versions, off)
            if correction.bounded not in overridden
        )
        if not broken:
            return self
        # what stands side by side now will hardly part: one more solution, not one for each correction
        names = known.beside(self.versions) | {row.name for row in broken if row.kind != "requirement"}
        corrections = self.corrections.with_active(names, broken)
        if corrections != self.corrections:
            return replace(self, corrections=corrections)
        # shown, and broken all the same: its METADATA doesn't come through the index proxy
        lines = {row.requirement for row in broken if row.kind != "extra"}
        return replace(self, constraints=tuple(sorted({*self.constraints, *lines})))

    def judge(self) -> Solved:
        """Give the target with the rules' findings on its pins, or with bounds that rule out what these refuse, where
        there are any to try."""
        judged = self.looking.judge(self)
        more = sacrifices(judged, self.pip, self.prepared.inputs.requirements, self.prepared.target.cuda)
        new = tuple(release for release in more if release.finding.bound not in self._bounds)
        if not new or self.hopeless or self.refusals >= _REFUSALS:
            return replace(self, judged=judged)
        return replace(self, gave_up=(*self.gave_up, *new), before=self, refusals=self.refusals + 1)


_REFUSALS = 8
"""Answers that the rules may refuse before one stands as it is."""


def solve(
    prepared: Sequence[Prepared],
    resolvers: Resolvers,
    preserved: Kept,
    judge: Callable[[Solved], tuple[Finding, ...]] = _nothing,
) -> tuple[Solved, ...]:
    """Solve both halves of the targets: conda's first, as its packages count for pip. `judge` refuses pins.

    Bounds of wheels in `preserved` count once a wheel confirms them. Where the judge's refusals leave no answer, the
    refused answer stands.

    Raises what the resolvers raise, and InternalError for a conda half without a resolver.
    """
    installed = _conda_half(prepared, resolvers.conda, preserved)
    targets = {}
    for target in prepared:
        conda, rows = installed.get(target.name, ()), preserved.read.get(target.name, ())
        keep = preserved.pip.get(target.name, Preferences())
        looking = TargetReview(judge, resolvers.inspect, tuple(row for row, _ in rows), keep)
        targets[target.name] = Solved(target.beside(conda), target.corrections, looking, conda=conda).replay(rows)
    requested = {name: target for name, target in targets.items() if target.request is not None}
    solved, needed = resolvers.pip.resolve(requested, preserved.pip) if requested else ({}, None)
    bare = {name: target.review(()) for name, target in targets.items() if name not in requested}
    return tuple(replace({**solved, **bare}[target.name], needed=needed) for target in prepared)


def _refuse_setback(target: Solved, pins: Sequence[Pin]) -> None:
    """Raise Unsatisfiable where a build tool took torch, or what the spec asks for, back."""
    assert target.toolless is not None
    required = set(map(requirement_name, target._without_tools))
    before, now = ({pin.name: pin.version for pin in pins_of_half} for pins_of_half in (target.toolless.pip, pins))
    back = [
        name
        for name, version in before.items()
        if (name in required or stack_of(name) is not None) and is_older(now.get(name, version), version)
    ]
    if not back:
        return
    name = min(back, key=lambda name: (name not in TORCH, name))
    wrong = [
        (line, place)
        for line, place in target.prepared.tools
        if (version := before.get(requirement_name(line)))
        and not published_requirement(line).specifier.contains(version, prereleases=True)
    ] or target.prepared.tools
    lines = ", ".join(line for line, _ in wrong)
    error = Unsatisfiable(
        f"{target.name}: the build of the spec's project requires {lines}, beside which {name} is {now[name]}, not "
        f"{before[name]}: a build tool decides nothing of the environment",
        hint="if the project's build can do with another, widen it in [build-system] requires",
        place=wrong[0][1],
    )
    error.ways = (Way(bounds=(f"{name}=={before[name].partition('+')[0]}",)),)
    raise error


def _conda_half(
    prepared: Sequence[Prepared], conda: CondaHalf | None, preserved: Kept
) -> Mapping[str, tuple[Pin, ...]]:
    requests = {target.name: target.conda for target in prepared if target.conda is not None}
    if not requests:
        return {}
    if conda is None:
        raise InternalError(f"{', '.join(requests)} ask for conda packages, and no conda resolver was given")
    return conda.resolve(requests, preserved.conda)
