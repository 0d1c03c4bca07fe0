"""All refusals of a lock at once, and the changes of the spec that lead to one. Each printed change was solved to its
end as it is written, beside one of each other refusal: it gives a lock in which nothing is far behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import AnswerNo, EnvspecError, Place, SpecError, parts, together
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.edges import Markers
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.resolve.pip.sources_needed import SourcesNeeded, names_needed, take_in_one_line
from envspec.resolve.uv.errors import UNREACHABLE
from envspec.spec.model import Located, NewerFor, Spec, acceptance_key
from envspec.spec.way import Way

SOLVES, SECONDS = 3, 10.0
"""Changed specs that one command solves, and the time in which it says no. Where the conflict itself took longer than
half of that, as with cold caches, the other half is still there for them."""
_LAST = ("unsatisfiable", "source-needed", UNREACHABLE)
"""Codes of what the spec's author decides, or what may pass."""

Attempting = Callable[[Spec, float], "tuple[EnvspecError, ...] | None"]
"""Solves a changed spec to its end, in some seconds: gives what is refused of it. None where that isn't known, or where
something that the spec asks for falls far behind."""


def is_obstacle(error: EnvspecError) -> bool:
    """Return whether there may be further refusals beside an error, or a change of the spec that helps."""
    of_spec = isinstance(error, SpecError) and all(part.about for part in parts(error))
    mended = any(part.ways for part in parts(error))
    return isinstance(error, AnswerNo) or error.code == UNREACHABLE or of_spec or mended


class Trial(Struct, frozen=True):
    """The judge of ways for one command, with the targets that it locks. `clock` gives seconds, `begun` is its time at
    the command's start, `solves` is the number of changed specs that it may solve."""

    spec: Spec
    names: tuple[str, ...]
    attempt: Attempting
    clock: Callable[[], float]
    begun: float
    solves: int = SOLVES

    def pass_ways(self, refused: Sequence[EnvspecError]) -> tuple[tuple[Way, ...], ...]:
        """Give, of each refusal, the ways that lead to a lock beside one of each other refusal. A way that leads to the
        next refusal is tried once more together with the way out of that."""
        written = [self._write_ways(error) for error in refused]
        passed: list[dict[Way, None]] = [{} for _ in refused]
        varied: int | None = None
        now = self.clock()
        left, end = self.solves, max(self.begun + SECONDS, now + SECONDS / 2)
        waiting = deque(_combinations([_choices(*pair) for pair in zip(refused, written, strict=True)]))
        while waiting and left and self.clock() < end:
            at, chosen = waiting.popleft()
            changed = self._apply(refused, chosen) if varied in (None, at) else None
            if changed is None:
                continue
            left -= 1
            refusals = self.attempt(changed, end - self.clock())
            more = _sources_besides(refusals, refused)
            if more is None:
                further = self._further(chosen[at], refusals, self._scope(refused[at])) if refusals else None
                if further is not None:
                    waiting.appendleft((at, (*chosen[:at], further, *chosen[at + 1 :])))
                continue
            for number, way in enumerate(chosen):
                if way is not None and (varied is None or number == at):
                    passed[number][replace(way, allow=more) if number == at else way] = None
            varied = at
        pairs = zip(passed, written, strict=True)
        return tuple(
            (*passing, *(way for way in ways if way.is_of_machines and way not in passing)) for passing, ways in pairs
        )

    def _scope(self, error: EnvspecError) -> tuple[str, ...]:
        return error.targets or self.names

    def _write_ways(self, error: EnvspecError) -> tuple[Way, ...]:
        of_conflict = error.ways or (_loosenings(error, self.spec) if isinstance(error, Unsatisfiable) else ())
        ways = (write_way(way, self.spec, self._scope(error)) for way in of_conflict)
        # of two that change the same, the last says why
        return tuple({replace(way, note="", near=False): way for way in ways}.values())

    def _further(self, way: Way | None, refused: Sequence[EnvspecError], names: Sequence[str]) -> Way | None:
        """Put a way and the first ways out of what it leads to into one; None where that isn't one change."""
        for error in refused:
            out = next((candidate for candidate in self._write_ways(error) if not candidate.is_of_machines), None)
            if way is None or out is None or not {*self._scope(error)} <= {*names}:
                return None
            way = way.beside(out)
        return way

    def _apply(self, refused: Sequence[EnvspecError], chosen: Sequence[Way | None]) -> Spec | None:
        """Give the spec with ways of several refusals; None where one undoes another, or a target asks for nothing."""
        changes = [(way, self._scope(error)) for way, error in zip(chosen, refused, strict=True) if way is not None]
        changed = self.spec
        if any(name in self.spec.pip.allow_source for way, _ in changes for name, _ in way.sources):
            return None  # whose code it is that may be built is the user's word
        for way, names in changes:
            changed = apply_way(changed, way, names)
        whole = all(
            changed.pip_dependencies(target) or changed.conda_dependencies(target) for target in changed.targets
        )
        return changed if whole and all(apply_way(changed, *change) == changed for change in changes) else None


def all_in_the_way(refused: Sequence[EnvspecError], trial: Trial) -> EnvspecError:
    """Make one error of all refusals, those of the most targets first, each with the ways that work."""
    errors = tuple({str(error): error for error in reversed(refused)}.values())[::-1]
    bare = (error for error in errors if error.code == "no-cuda-backend" and all(way.accept for way in error.ways))
    replaced = {name for error in bare for name in error.about}
    left = [error.without(replaced) if isinstance(error, SourcesNeeded) else error for error in errors]
    ordered = sorted(filter(None, left), key=lambda error: _rank(error, trial.spec, trial.names))
    take_in_one_line(ordered)
    for error, ways in zip(ordered, trial.pass_ways(ordered), strict=True):
        error.tell_ways(ways)
    return together(ordered)


def _rank(error: EnvspecError, spec: Spec, names: Sequence[str]) -> tuple[int, int, int]:
    """What blocks more targets comes first, then what blocks more of what the spec asks for; of two that block as much,
    what other software can't change."""
    direct = {requirement_name(line.text) for target in spec.targets for line in spec.pip_dependencies(target)}
    about = {*map(canonical_name, error.requested)}
    blocked = len(about & direct) or 1 if about else len(direct)
    last = _LAST.index(error.code) if error.code in _LAST else -1
    return -len(error.targets or names), -blocked, last


def _loosenings(conflict: Unsatisfiable, spec: Spec) -> Iterator[Way]:
    """Yield, of what a conflict names, each requirement of the spec without its bounds."""
    names = {*map(canonical_name, conflict.requested)}
    for line in dict.fromkeys(line.text for target in spec.targets for line in spec.pip_dependencies(target)):
        name = requirement_name(line)
        if name in names and " @ " not in line and parse_requirement(line).specifier:
            yield Way(line=name, note="without its bounds")


def _choices(error: EnvspecError, written: Sequence[Way]) -> tuple[Way | None, ...]:
    """Give what may be done about a refusal. Its sources, which the user has to trust, are no change to try."""
    tried = tuple(way for way in written if not way.is_of_machines)
    return (*([None] if names_needed(error) else ()), *(tried or written[:1]))


def _combinations(choices: Sequence[Sequence[Way | None]]) -> Iterator[tuple[int, tuple[Way | None, ...]]]:
    """Yield the first choices of all refusals together, then each with another one of one refusal, and which that is.
    Nothing where one has none, or where nothing changes."""
    if not all(choices):
        return
    first = tuple(choice[0] for choice in choices)
    open_choices = [at for at, ways in enumerate(choices) if len(ways) > 1]
    if any(way and not way.is_of_machines for way in first):
        yield open_choices[0] if open_choices else 0, first
    for at in open_choices:
        for way in choices[at][1:]:
            yield at, (*first[:at], way, *first[at + 1 :])


def _sources_besides(refused: Sequence[EnvspecError] | None, before: Sequence[EnvspecError]) -> tuple[str, ...] | None:
    """Name the sources that a changed spec needs and the spec as it stands doesn't; None where it has no lock."""
    if refused is None or not all(map(names_needed, refused)):
        return None
    known = {name for error in before for name in names_needed(error)}
    return tuple(dict.fromkeys(name for error in refused for name in names_needed(error) if name not in known))


# A way as the user writes it, and the spec with it. What stands in [env], [pip] or [conda] is for all targets.


def write_way(way: Way, spec: Spec, names: Collection[str]) -> Way:
    """Give a way with a requirement's extras and marker as the spec has them; where the spec doesn't ask for the
    package, as a constraint. `names` are the targets that it is for."""
    if way.line is None:
        return way
    name = requirement_name(way.line)
    for target in spec.targets:
        if target.name not in names:
            continue
        holds = Markers(target.platform, spec.full_python(target)).hold
        project = spec.project.requirements(target.name) if spec.project else ()
        for line in (*spec.pip.dependencies, *project, *target.pip):
            if requirement_name(line.text) == name and holds(line.text):
                return replace(way, line=_in_place_of(line.text, way.line))
    return replace(way, line=None, bounds=(way.line, *way.bounds))


def apply_way(spec: Spec, way: Way, names: Collection[str]) -> Spec:
    """Give the spec with a way. `names` are the targets that it is for."""
    pip, terms, place = spec.pip, spec.pip.terms, Place(spec.path)
    line, conda = way.line, way.conda and conda_name(way.conda)
    known = {bound.text for bound in terms.constraints}
    present = {located.text for located in pip.dependencies}
    more = (Located(text, place) for text in way.more if text not in present)
    new_bounds = (Located(bound, place) for bound in way.bounds if bound not in known)
    accept = {acceptance_key(code, package) if package else code: "tried" for code, package in way.accept}

    of_any_day = (NewerFor(name, of_index=False, bound=None, reason="tried") for name in way.of_any_day)

    def in_place(lines: tuple[Located, ...]) -> tuple[Located, ...]:
        retained = (line for line in lines if requirement_name(line.text) not in way.without)
        return tuple(
            replace(located, text=line) if line and _is_at(located.text, line) else located for located in retained
        )

    def match_specs(lines: tuple[Located, ...]) -> tuple[Located, ...]:
        return tuple(replace(line, text=str(way.conda)) if conda_name(line.text) == conda else line for line in lines)

    targets = tuple(
        replace(
            target,
            platform=way.platform or target.platform,
            cuda=None if way.cpu else way.cuda or target.cuda,
            gpus=() if way.cpu else target.gpus,
            glibc=way.glibc or target.glibc,
            cuda_compat=target.cuda_compat if way.cuda_compat is None else way.cuda_compat,
            pip=in_place(target.pip),
            conda=match_specs(target.conda),
        )
        if target.name in names
        else target
        for target in spec.targets
    )
    matched = match_specs(spec.conda.dependencies)
    if conda and conda not in {conda_name(located.text) for target in targets for located in (*matched, *target.conda)}:
        matched = (*matched, Located(str(way.conda), place))
    project, base = spec.project, spec.base
    if base is not None and way.replaced:
        base = replace(base, replace=MappingProxyType({**base.replace, **dict.fromkeys(way.replaced, "tried")}))
    return replace(
        spec,
        base=base,
        targets=targets,
        python=way.python or spec.python,
        python_range=way.python_range if way.python else spec.python_range,
        python_builds={} if way.python else spec.python_builds,
        newer_for=(*spec.newer_for, *(name for name in of_any_day if name not in spec.newer_for)),
        exclude_newer=f"{way.exclude_newer}T00:00:00Z" if way.exclude_newer else spec.exclude_newer,
        conda=replace(spec.conda, dependencies=matched),
        pip=replace(
            pip,
            dependencies=(*in_place(pip.dependencies), *more),
            sources=MappingProxyType({**pip.sources, **dict(way.sources)}),
            without_corrections=pip.without_corrections | {*way.corrections},
            terms=replace(
                terms,
                constraints=(*terms.constraints, *new_bounds),
                inspect=terms.inspect if way.inspect is None else way.inspect,
                overrides=(*terms.overrides, *(Located(text, place, "tried") for text in way.overrides)),
                accept=MappingProxyType({**terms.accept, **accept}),
            ),
        ),
        project=replace(
            project,
            dependencies=in_place(project.dependencies),
            of_targets={name: in_place(lines) for name, lines in project.of_targets.items()},
        )
        if project
        else None,
    )


def _is_at(old: str, new: str) -> bool:
    """Return whether a requirement is the one that another is written in place of."""
    return requirement_name(old) == requirement_name(new) and _in_place_of(old, new) == new


def _in_place_of(old: str, new: str) -> str:
    """Write a requirement of another version with the extras and the marker of the one whose place it takes."""
    before, now = parse_requirement(old), parse_requirement(new)
    if now.specifier != before.specifier:
        now.extras, now.marker = before.extras, before.marker
    return str(now)
