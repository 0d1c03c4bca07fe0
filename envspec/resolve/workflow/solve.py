"""The solving of prepared targets to exact pins: the conda half first, because its packages count for pip."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import InternalError, Unsatisfiable, Way, parts
from envspec.base.finding import Finding
from envspec.facts.corrections import Correction, Corrections, of_wheel
from envspec.facts.cuda_stack import TORCH, stack_of
from envspec.facts.minimum import capabilities
from envspec.lock.model import BuildPin, LockedCorrection, LockedTarget, Pin, Publisher
from envspec.net.index_proxy.releases import is_older
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.pip.build_environment import BuildWanted
from envspec.resolve.pip.build_imports import BuildLacks
from envspec.resolve.pip.newest import Releases
from envspec.resolve.pip.request import Preferences, Request, provided_packages, request_for
from envspec.resolve.pip.sources_needed import SourcesNeeded
from envspec.resolve.workflow.bounded import GivenUp, sacrifices
from envspec.resolve.workflow.keep import Kept, preferences_of
from envspec.resolve.workflow.notices import Effect, broken_corrections, collect_bounds, effects
from envspec.resolve.workflow.prepare import Prepared
from envspec.rules.wheel_code import WheelBuild


class Resolver(Protocol):
    """A resolver of the pip half. `keep` holds, by target, versions to keep where they still fit."""

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...


class Inspector(Protocol):
    """Reads in wheels what they need of each other and their METADATA doesn't say."""

    def recalls(self, one: LockedCorrection, pin: Pin) -> bool:
        """Say whether a lock's row is known to stand in the wheel of its pin. Nothing is fetched."""

    def read(self, pins: Sequence[Pin], about: Collection[tuple[str, str]] = ()) -> Sequence[LockedCorrection]:
        """Give what the wheels of a solution say against it, and, of the packages and bounds in `about`, what holds."""

    def builds(
        self, pins: Sequence[Pin], cuda: str | None, platform: str, capabilities: Collection[str]
    ) -> Mapping[str, WheelBuild]:
        """Give what the wheels of a solution are built for, by package, where that could matter, for these GPUs, and
        the paths that several of its packages have."""


class CondaHalf(Protocol):
    """A resolver of the conda half. `keep` holds a package's version and build; `findings` are those of `Resolvers`."""

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...

    def findings(self, pins: Mapping[str, tuple[Pin, ...]]) -> Sequence[Finding]: ...


def _none(asked: object) -> Mapping[Any, Any]:
    """Answer nothing."""
    return {}


class Resolvers(Struct, frozen=True):
    """The resolvers of a lock's halves, and the readers of what their answers need.

    conda       None for a spec without conda dependencies
    inspect     reads what wheels need of each other and their METADATA doesn't say; None reads nothing
    builds      resolves what sources are built with; without it, only what the old lock has of that stands in a new one
    publishers  asks the indexes of pins who published them; likewise
    releases    gives, for a request, the releases of a package on the index that it comes from
    findings    gives what the resolver has to say of the last solution, whose pins it gets by target, beside what is
                said already
    is_behind   says whether versions leave something far behind that a request asks for itself; likewise
    stop        ends what runs for the question of the moment
    """

    pip: Resolver
    conda: CondaHalf | None = None
    inspect: Inspector | None = None
    builds: Callable[[Sequence[BuildWanted]], Mapping[BuildWanted, tuple[BuildPin, ...] | BuildLacks]] = _none
    publishers: Callable[[Iterable[Pin]], Mapping[Pin, Publisher]] = _none
    findings: Callable[[Mapping[str, tuple[Pin, ...]], Sequence[Finding]], Sequence[Finding]] = lambda pins, others: ()
    releases: Callable[[Request], Releases] = lambda request: lambda name: ()
    is_behind: Callable[[Request, Mapping[str, str]], bool] = lambda request, versions: False
    stop: Callable[[], object] = lambda: None


class Solved(Struct, frozen=True, dict=True):
    """A target and its pins so far.

    prepared     its inputs
    corrections  of published metadata, as the pip half was solved with them
    constraints  PEP 508 lines of corrections that can't be shown as METADATA: of git, of a direct URL
    gave_up      pins of earlier solutions that can't work on the target; their bounds hold in this one
    read         corrections that were read from wheels, in this solution or an earlier one
    builds       what its wheels are built for, by package, as far as they were read
    cleared      older versions whose wheels don't say what those of newer ones do: name, version and bound
    hopeless     it has no solution without what the rules refuse of this one
    conda        the pins of its conda half
    pip          the pins of its pip half
    needed       the sources that the spec would have to allow for them, of all targets
    """

    prepared: Prepared
    corrections: Corrections
    constraints: tuple[str, ...] = ()
    gave_up: tuple[GivenUp, ...] = ()
    hopeless: bool = False
    read: tuple[LockedCorrection, ...] = ()
    builds: Mapping[str, WheelBuild] = field(default_factory=dict)
    cleared: frozenset[tuple[str, str, str]] = frozenset()
    conda: tuple[Pin, ...] = ()
    pip: tuple[Pin, ...] = ()
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
        found = request_for(
            prepared.shared,
            prepared.inputs,
            tuple(sorted({*prepared.constraints, *self.constraints})),
            self._provided,
            self.corrections,
            prepared.exempt,
            tuple(sorted({name for one in self.gave_up if (name := one.final)})),
            tuple(sorted(set(self._bounds))),
        )
        return replace(found, extras=prepared.extras, direct=prepared.direct)

    @property
    def _provided(self) -> tuple[tuple[str, str], ...]:
        """The packages that are there for pip already: conda's, or the base's."""
        return self.prepared.provided or provided_packages(self.conda)

    @property
    def _bounds(self) -> tuple[str, ...]:
        return tuple(str(one.finding.bound) for one in self.gave_up)

    @cached_property
    def versions(self) -> Mapping[str, str]:
        """The versions of pip's packages, and of those that conda or the base provides to them."""
        return {
            **dict(self._provided),
            **{pin.name: pin.version for pin in self.pip},
        }

    @cached_property
    def effects(self) -> tuple[Effect, ...]:
        """Give what corrections did to its pip half."""
        if self.request is None:
            return ()
        inputs = self.prepared.inputs
        constraints = (*inputs.constraints, *self.prepared.constraints, *self._bounds)
        known = collect_bounds(self.pip, inputs.requirements, constraints, self.request.overrides)
        # of a package's wheels the pinned one speaks, not a newer one that was given up
        others = {self._row(one) for one in self.read} - {self._row(one) for one in self.rows_of_pins(self.read)}
        did = effects(self.request.corrections, self.pip, self.versions, known)
        return tuple(effect for effect in did if effect.correction not in others)

    @property
    def shaped(self) -> tuple[LockedCorrection, ...]:
        """Give the corrections read from its wheels that did something to its pip half."""
        did = {effect.correction for effect in self.effects}
        edges = {(pin.name, line) for pin in self.pip for line in pin.solver.added}
        rows = self.rows_of_pins(self.read)
        return tuple(one for one in rows if self._row(one) in did or (one.package, one.constraint) in edges)

    def rows_of_pins(self, rows: Iterable[LockedCorrection]) -> tuple[LockedCorrection, ...]:
        """Give the rows whose wheels are pinned."""
        return tuple(one for one in rows if any(map(one.is_of, self.pip)))

    def inspect_wheels(self, inspect: Inspector, locked: Collection[LockedCorrection]) -> Solved:
        """Give the target with what its wheels say against its solution, and with those rows of the old lock that they
        confirm; itself where that is nothing new. Raises what reading wheels raises."""
        if not self.prepared.inputs.inspect:
            return self
        rows = [one for one in (*locked, *self.read) if self.counts(one)]
        found = inspect.read(self.pins, frozenset((one.package, one.constraint) for one in rows))
        more = [one for one in found if self.counts(one) and one not in self.read]
        said = {(one.package, one.version, one.constraint) for one in found}
        now = {(one.package, self.versions[one.package], one.constraint) for one in self.read if self._has(one)}
        cleared = self.cleared | now - said
        return self.with_read_corrections(more, cleared) if more or cleared != self.cleared else self

    def with_builds(self, inspect: Inspector) -> Solved:
        """Give the target with what its wheels are built for. Raises what reading wheels raises."""
        inputs = self.prepared.inputs
        if not inputs.inspect:
            return self
        gpus = capabilities(self.prepared.target.gpus)
        return replace(self, builds=inspect.builds(self.pins, inputs.cuda, inputs.platform, gpus))

    def replay(self, inspect: Inspector, locked: Iterable[tuple[LockedCorrection, Pin]]) -> Solved:
        """Give the target with those rows of the old lock that are known to stand in the wheels that it pinned."""
        if not self.prepared.inputs.inspect:
            return self
        return self.with_read_corrections(one for one, pin in locked if self.counts(one) and inspect.recalls(one, pin))

    def with_read_corrections(
        self, more: Iterable[LockedCorrection], cleared: frozenset[tuple[str, str, str]] = frozenset()
    ) -> Solved:
        """Give the target with corrections that were read from wheels."""
        known = replace(self, read=tuple(sorted({*self.read, *more})), cleared=cleared)
        return replace(known, corrections=self.corrections.with_read(map(known._row, known.read)))

    def _has(self, one: LockedCorrection) -> bool:
        return any(pin.name == one.package for pin in self.pip)

    def counts(self, one: LockedCorrection) -> bool:
        """Say whether the spec lets a correction that was read from a wheel count."""
        return self._row(one).name not in self.prepared.shared.without_corrections

    def _row(self, one: LockedCorrection) -> Correction:
        but = sorted(v for name, v, bound in self.cleared if (name, bound) == (one.package, one.constraint))
        return of_wheel(one.package, one.version, one.constraint, one.reason, but)

    def with_corrections(self) -> Solved:
        """Give the target with the corrections that its solution breaks; itself where it breaks none."""
        if self.request is None:
            return self
        known, off = self.request.corrections, self.prepared.shared.without_corrections
        overridden = set(map(requirement_name, self.request.overrides))
        found = tuple(
            one for one in broken_corrections(known, self.pip, self.versions, off) if one.bounded not in overridden
        )
        if not found:
            return self
        # what stands side by side now will hardly part: one more solution, not one for each correction
        names = known.beside(self.versions) | {one.name for one in found if one.kind != "requirement"}
        corrections = self.corrections.with_active(names, found)
        if corrections != self.corrections:
            return replace(self, corrections=corrections)
        # shown, and broken all the same: its METADATA doesn't come through the index proxy
        lines = {one.requirement for one in found if one.kind != "extra"}
        return replace(self, constraints=tuple(sorted({*self.constraints, *lines})))

    def with_bounds(self, findings: Iterable[Finding]) -> Solved:
        """Give the target with bounds that rule out what the rules refuse; itself where there are none to try."""
        if self.hopeless:
            return self
        more = sacrifices(findings, self.pip, self.prepared.inputs.requirements, self.prepared.target.cuda)
        new = tuple(one for one in more if one.finding.bound not in self._bounds)
        return replace(self, gave_up=(*self.gave_up, *new)) if new else self


def _nothing(solved: Solved) -> tuple[Finding, ...]:
    """Refuse nothing."""
    return ()


_ROUNDS = 64
"""Questions about the pip halves. Each has something more than the one before, or less where that left no answer."""
_REFUSALS = 8
"""Answers that the rules may refuse before one stands as it is."""


def solve(
    prepared: Sequence[Prepared],
    resolvers: Resolvers,
    kept: Kept,
    judge: Callable[[Solved], tuple[Finding, ...]] = _nothing,
) -> tuple[Solved, ...]:
    """Solve both halves of the targets, and the pip halves again as long as an answer shows something new: corrections
    that it breaks, what its wheels say, and pins that `judge` refuses and others may avoid.

    What `kept` holds of what wheels say counts once a wheel confirms it. Where what the judge
    refused leaves no answer, the refused one stands.

    Raises what the resolvers raise, and InternalError for a conda half without a resolver.
    """
    installed = _conda_half(prepared, resolvers.conda, kept)
    halves = ((one, installed.get(one.name, ())) for one in prepared)
    targets = tuple(Solved(one.beside(conda), one.corrections, conda=conda) for one, conda in halves)
    reviews: list[Callable[[Solved], Solved]] = [Solved.with_corrections]
    if (inspect := resolvers.inspect) is not None:
        targets = tuple(one.replay(inspect, kept.read.get(one.name, ())) for one in targets)
        reviews.append(lambda one: one.inspect_wheels(inspect, [row for row, _ in kept.read.get(one.name, ())]))
    stood: dict[str, Solved] = {}
    refusals = 0
    for _ in range(_ROUNDS):
        try:
            targets = _ask(targets, resolvers.pip, kept)
        except Unsatisfiable as conflict:
            yielding = _let_go(targets, conflict, stood)
            if yielding == targets:
                raise
            targets = yielding
            continue
        # what uv chose has published metadata that is wrong: once more, with what that should have said
        shown = (tuple(map(review, targets)) for review in reviews)
        again = next((changed for changed in shown if changed != targets), None)
        if again is None:
            if inspect is not None:
                targets = tuple(one.with_builds(inspect) for one in targets)
            again = tuple(one.with_bounds(judge(one)) for one in targets) if refusals < _REFUSALS else targets
            if again == targets:
                return targets
            refusals += 1
            stood = {one.name: one for one in targets}
        targets = again
    raise InternalError(f"{', '.join(one.name for one in targets)}: no end after {_ROUNDS} questions")


def _ask(targets: Sequence[Solved], resolver: Resolver, kept: Kept) -> tuple[Solved, ...]:
    """Give the targets with the pins of their pip halves. Raises Unsatisfiable."""
    requests = {one.name: one.request for one in targets if one.request is not None}
    pins, needed = _pip_halves(targets, requests, resolver, kept) if requests else ({}, None)
    return tuple(replace(one, pip=tuple(pins.get(one.name, ())), needed=needed) for one in targets)


def _let_go(targets: Sequence[Solved], conflict: Unsatisfiable, stood: Mapping[str, Solved]) -> tuple[Solved, ...]:
    """Give the targets without what the rules refused of the answer that `stood`."""
    names = {name for part in parts(conflict) for name in part.targets} or {*stood}
    return tuple(
        replace(stood[one.name], hopeless=True)
        if one.name in names and one.name in stood and one.gave_up != stood[one.name].gave_up
        else one
        for one in targets
    )


def _pip_halves(
    targets: Sequence[Solved], requests: Mapping[str, Request], resolver: Resolver, kept: Kept
) -> tuple[Mapping[str, tuple[Pin, ...]], SourcesNeeded | None]:
    """Solve the pip halves: what the build of the spec's project alone requires comes last, beside what all else got.
    Gives the sources that they need, too. Raises Unsatisfiable where that would take something else back."""
    tools = {one.name: {line for line, _ in one.prepared.tools} for one in targets}
    without = {
        name: replace(request, requirements=tuple(line for line in request.requirements if line not in tools[name]))
        for name, request in requests.items()
    }
    if without == requests or not all(request.requirements for request in without.values()):
        return _answer(resolver, requests, kept.pip)
    alone, _ = _answer(resolver, without, kept.pip)
    keep = {}
    for one in targets:
        if one.name in alone:
            before = kept.pip.get(one.name, Preferences())
            own = preferences_of(LockedTarget(one.name, one.prepared.inputs, alone[one.name]))
            keep[one.name] = replace(own, last={**before.last, **own.versions}).over(before)
    pins, needed = _answer(resolver, requests, keep)
    for one in targets:
        if one.name in alone:
            _refuse_setback(one, without[one.name], alone[one.name], pins[one.name])
    return pins, needed


def _answer(
    resolver: Resolver, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
) -> tuple[Mapping[str, tuple[Pin, ...]], SourcesNeeded | None]:
    """Give pins, and the sources that they need: no reason not to judge the rest."""
    try:
        return resolver.resolve(requests, keep), None
    except SourcesNeeded as needed:
        if needed.pins is None:
            raise
        return needed.pins, needed


def _refuse_setback(target: Solved, request: Request, alone: Sequence[Pin], pins: Sequence[Pin]) -> None:
    """Raise Unsatisfiable where a build tool took torch, or what the spec asks for, back."""
    asked, now = set(map(requirement_name, request.requirements)), {pin.name: pin.version for pin in pins}
    before = {pin.name: pin.version for pin in alone}
    back = [
        name
        for name, version in before.items()
        if (name in asked or stack_of(name) is not None) and is_older(now.get(name, version), version)
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


def _conda_half(prepared: Sequence[Prepared], conda: CondaHalf | None, kept: Kept) -> Mapping[str, tuple[Pin, ...]]:
    requests = {one.name: one.conda for one in prepared if one.conda is not None}
    if not requests:
        return {}
    if conda is None:
        raise InternalError(f"{', '.join(requests)} ask for conda packages, and no conda resolver was given")
    return conda.resolve(requests, kept.conda)
