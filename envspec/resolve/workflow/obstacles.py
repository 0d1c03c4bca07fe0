"""All that stands in the way of a lock, at once. What is refused is lifted in memory, one thing after the other, until
the spec has a solution: so all refusals are known, and a way is told only where it has given a whole lock beside the
lifting of the others. No source is built for it that the spec doesn't allow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import (
    AnswerNo,
    EnvspecError,
    Infeasible,
    InputError,
    OutsideError,
    SpecError,
    Unsatisfiable,
    Way,
    parts,
    together,
)
from envspec.base.finding import Finding
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.resolve.pip.retreat import Retreated
from envspec.resolve.pip.sources_needed import SourcesNeeded, take_in_one_line
from envspec.resolve.uv.errors import UNREACHABLE
from envspec.spec.model import Located, Spec, Target

_ATTEMPTS = 24
"""Specs that are solved for one refusal. What has no turn isn't told."""
_OF_WARNINGS = 2
"""Specs that are solved for the warnings of a lock."""
_LAST = ("unsatisfiable", "source-needed", UNREACHABLE)
"""Codes of what the spec's author decides, or what may pass."""


class Attempt(Struct, frozen=True):
    """The obstacles of one spec.

    whole    it was solved and judged: nothing else does
    unknown  something outside failed: it says nothing
    """

    refused: tuple[EnvspecError, ...]
    whole: bool
    unknown: bool = False


RIGHT = Attempt((), whole=True)
Attempting = Callable[[Spec, Collection[str]], Attempt]
"""Solves the targets of a spec that have these names."""


def attempt_of(error: EnvspecError) -> Attempt:
    """Give the attempt that ended with an error."""
    outside = isinstance(error, OutsideError) and error.code != UNREACHABLE
    return Attempt(tuple(parts(error)), whole=False, unknown=outside)


def is_obstacle(error: EnvspecError) -> bool:
    """Say whether something else may stand in the way beside what an error says."""
    return isinstance(error, AnswerNo) or error.code == UNREACHABLE or (isinstance(error, SpecError) and _is_of(error))


def _is_of(error: EnvspecError) -> bool:
    return all(one.about for one in parts(error))


def all_in_the_way(spec: Spec, names: Sequence[str], first: Attempt, attempt: Attempting) -> EnvspecError:
    """Give one error of all that stands in the way, what blocks most first, each with the ways that work. `first` is
    the attempt at the spec as it stands."""
    search = _Search(spec, tuple(names), attempt)
    search.gather(first)
    about = {name for one in search.found if not isinstance(one, SourcesNeeded) for name in one.about}
    if search.found and _follows(search.found[-1], first, about):
        # its ways name the sources that they need
        search.found.pop()
    replaced = {name for one in search.found if one.code == "no-cuda-backend" and not one.ways for name in one.about}
    needed = {at: one.beside(replaced) for at, one in enumerate(search.found) if isinstance(one, SourcesNeeded)}
    left = {at: now for at, one in enumerate(search.found) if (now := needed.get(at, one)) is not None}
    told = sorted(left.values(), key=lambda one: _rank(one, spec, names))
    take_in_one_line(told)
    for at, one in left.items():
        one.tell_ways(partial(search.try_way, at))
        one.message += search.beside.get(at, "")
    return together(told)


def with_tried_ways(notice: Callable[[Finding], None], spec: Spec, attempt: Attempting) -> Callable[[Finding], None]:
    """Give a notice that tells the first ways of a right lock's warnings after a lock with them."""
    left = [_OF_WARNINGS]

    def tell(finding: Finding) -> None:
        def try_way(way: Way) -> str | None:
            left[0] -= 1
            names = () if way.is_for_all else finding.targets
            names = names or tuple(one.name for one in spec.targets)
            return "" if left[0] >= 0 and attempt(_apply_ways(spec, [(way, names)]), names) == RIGHT else None

        notice(finding.try_ways(try_way) if finding.severity == "warning" else finding)

    return tell


class _Search(Struct):
    """The obstacles found for targets, and for each the change with which the search went on. `beside` says of one
    that names a CUDA or a Python which isn't the spec's that this is one of the changes. `left` are the attempts to
    come."""

    spec: Spec
    names: tuple[str, ...]
    attempt: Attempting
    found: list[EnvspecError] = field(default_factory=list)
    lifts: dict[int, Way] = field(default_factory=dict)
    beside: dict[int, str] = field(default_factory=dict)
    left: int = _ATTEMPTS
    made: dict[tuple[frozenset[tuple[int, Way]], tuple[str, ...]], Attempt] = field(default_factory=dict)

    def gather(self, now: Attempt) -> None:
        """Lift what is refused until nothing else is, or what is left has no lift."""
        while True:
            known = len(self.found)
            for one in now.refused:
                if not any(_is_same(one, other) for other in self.found):
                    self.found.append(one)
                    lifts = self.lifts.values()
                    changed = [f"CUDA {way.cuda}" for way in lifts if way.cuda]
                    changed += [f"Python {way.python}" for way in lifts if way.python]
                    if said := [text for text in dict.fromkeys(changed) if text in one.message]:
                        self.beside[len(self.found) - 1] = f" (once changed to {' and '.join(said)})"
            if now.whole or len(self.found) == known:
                return
            for at in range(known, len(self.found)):
                if (lifted := self._lift(at)) is None:
                    return
                now = lifted

    def _lift(self, at: int) -> Attempt | None:
        """Go on with the first way that leaves nothing else in the way, else with the first that lifts what is refused;
        or with a change that no user would write."""
        error, best = self.found[at], None
        for way in (*error.ways, *_lifts(error, self.spec)):
            now = self._run({**self.lifts, at: way}, self.names)
            if now.unknown or any(_is_same(one, error) for one in now.refused) or not (now.refused or now.whole):
                continue
            if best is None or now.whole:
                best = way, now
            if now.whole:
                break
        if best is not None:
            self.lifts[at] = best[0]
        return best[1] if best else None

    def _run(self, changes: Mapping[int, Way], names: tuple[str, ...]) -> Attempt:
        key = (frozenset(changes.items()), names)
        if key not in self.made:
            if not self.left:
                return Attempt((), whole=False)
            self.left -= 1
            changed = [(way, self._scope(at, way)) for at, way in changes.items()]
            self.made[key] = self.attempt(_apply_ways(self.spec, changed), names)
        return self.made[key]

    def _scope(self, at: int, way: Way) -> tuple[str, ...]:
        """Give the targets that a way is for."""
        targets = self.found[at].targets
        return self.names if way.is_for_all or not targets else tuple(one for one in self.names if one in targets)

    def try_way(self, at: int, way: Way) -> str | None:
        """Judge a way: a whole lock, beside the lifting of all else that was refused."""
        now = self._run({**self.lifts, at: way}, self._scope(at, way))
        if not now.whole:
            # the facts have passed what is near, and more can't be known
            return "" if now.unknown and way.near else None
        others = [one for number, one in enumerate(self.found) if number != at]
        new = [one for one in now.refused if not any(_is_same(one, other) for other in others)]
        if any(not isinstance(one, SourcesNeeded) for one in new):
            return None
        told = {name for one in others if isinstance(one, SourcesNeeded) for name in one.names}
        more = [name for one in now.refused if isinstance(one, SourcesNeeded) for name in one.names if name not in told]
        allowed = ", ".join(f'"{name}"' for name in more)
        return f", with allow-source = [{allowed}]" if more else ""


def _is_same(one: EnvspecError, other: EnvspecError) -> bool:
    if isinstance(one, SourcesNeeded):
        return isinstance(other, SourcesNeeded)
    if isinstance(one, Unsatisfiable) and one.ways != other.ways:
        # uv tells one conflict after the other
        return False
    return (one.code, one.about, one.code or one.message) == (other.code, other.about, other.code or other.message)


def _follows(error: EnvspecError, first: Attempt, about: Collection[str]) -> bool:
    """Say whether sources are of what else is refused alone: of releases that the spec as it stands doesn't take."""
    if not isinstance(error, SourcesNeeded) or any(_is_same(error, one) for one in first.refused):
        return False
    return set(error.about) <= set(about)


def _rank(error: EnvspecError, spec: Spec, names: Sequence[str]) -> tuple[int, int, int]:
    """What blocks more targets comes first, then what blocks more of what the spec asks for; of two that block as much,
    what other software can't change."""
    asked = {*map(canonical_name, error.asked)}
    several = len(asked & _direct(spec)) or 1 if asked else len(_direct(spec))
    last = _LAST.index(error.code) if error.code in _LAST else -1
    return -len(error.targets or names), -several, last


def _direct(spec: Spec) -> set[str]:
    return {requirement_name(one.text) for target in spec.targets for one in spec.pip_dependencies(target)}


def _lifts(error: EnvspecError, spec: Spec) -> Iterator[Way]:
    """Find a change with which the search goes on, whether or not the user would write it."""
    if isinstance(error, Retreated):
        yield Way(accept=error.accepted)
    elif isinstance(error, Unsatisfiable):
        asked = _direct(spec) & {*map(canonical_name, error.asked)}
        # what the rest leads to stays bounded as the spec has it
        lines = {one.text for target in spec.targets for one in spec.pip_dependencies(target) if "@" not in one.text}
        bounds = tuple(sorted(line for line in lines if requirement_name(line) in asked and "[" not in line))
        if asked and asked < _direct(spec):
            yield Way(without=tuple(sorted(asked)), bounds=bounds)
    elif isinstance(error, Infeasible):
        yield Way(bare=True)
    elif error.about and (isinstance(error, InputError) or error.code == UNREACHABLE):
        yield Way(without=error.about)


def _apply_ways(spec: Spec, changes: Iterable[tuple[Way, Collection[str]]]) -> Spec:
    """Give a spec with changes of these targets. A Python of theirs is every target's."""
    for way, names in changes:
        targets = tuple(_of_target(spec, one, way) if one.name in names else one for one in spec.targets)
        spec = replace(spec, targets=targets)
        if way.line or way.without or way.conda:
            spec = _with_lines(spec, way, names)
        if way.python:
            spec = replace(spec, python=way.python, python_range=way.python_range, python_builds={})
        if way.exclude_newer:
            spec = replace(spec, exclude_newer=way.exclude_newer)
        if way.sources:
            spec = replace(spec, pip=replace(spec.pip, sources={**spec.pip.sources, **dict(way.sources)}))
    return spec


def _of_target(spec: Spec, target: Target, way: Way) -> Target:
    bounds = way.bounds
    asked = {requirement_name(one.text) for one in spec.pip_dependencies(target)}
    if way.line and requirement_name(way.line) not in asked:
        bounds = (*bounds, way.line)
    terms = target.terms
    accept = MappingProxyType({**terms.accept, **dict.fromkeys(way.accept, "tried")})
    lines = tuple(Located(bound, target.place) for bound in bounds)
    return replace(
        target,
        cuda=way.cuda or target.cuda,
        glibc=way.glibc or target.glibc,
        gpus=() if way.bare else target.gpus,
        driver=None if way.bare else target.driver,
        terms=replace(terms, accept=accept, constraints=(*terms.constraints, *lines)),
    )


def _with_lines(spec: Spec, way: Way, names: Collection[str]) -> Spec:
    """Replace requirements, or leave them out. What the spec asks of all targets becomes each one's own."""
    name = requirement_name(way.line) if way.line else None
    conda = conda_name(way.conda) if way.conda else None

    def pip(one: Located) -> Located:
        return replace(one, text=_in_place_of(one.text, str(way.line))) if requirement_name(one.text) == name else one

    def match(one: Located) -> Located:
        return replace(one, text=str(way.conda)) if conda_name(one.text) == conda else one

    project = spec.project
    targets = []
    for target in spec.targets:
        own = project.of_targets.get(target.name, project.dependencies) if project else ()
        lines = (*spec.pip.dependencies, *own, *target.pip)
        specs = (*spec.conda.dependencies, *target.conda)
        if target.name in names:
            lines = tuple(pip(one) for one in lines if requirement_name(one.text) not in way.without)
            added = conda and conda not in {conda_name(one.text) for one in specs}
            specs = (*map(match, specs), *([Located(str(way.conda), target.place)] if added else ()))
        targets.append(replace(target, pip=lines, conda=specs))
    return replace(
        spec,
        targets=tuple(targets),
        pip=replace(spec.pip, dependencies=()),
        conda=replace(spec.conda, dependencies=()),
        project=replace(project, dependencies=(), of_targets={}) if project else None,
    )


def _in_place_of(old: str, new: str) -> str:
    """Write a requirement of another version with the extras and the marker of the one whose place it takes."""
    before, now = parse_requirement(old), parse_requirement(new)
    if now.specifier != before.specifier:
        now.extras, now.marker = before.extras, before.marker
    return str(now)
