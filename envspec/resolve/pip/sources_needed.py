"""The error for all packages that a solution needs from source and that the spec doesn't allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import AnswerNo, EnvspecError, Way
from envspec.facts.cuda_stack import TORCH as TORCHES
from envspec.lock.model import Pin
from envspec.lock.toml_text import inline_strings
from envspec.packages.names import requirement_name
from envspec.packages.requirement import head_of, is_requirement
from envspec.packages.version_numbers import numbers
from envspec.resolve.pip.build_imports import ALONE, TORCH, BuildLacks
from envspec.resolve.pip.newest import Releases, needed_glibc, needed_python, wheels_fit
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.static_source import SourceFacts, Trust
from envspec.resolve.uv.answer import Found


class NeededSource(Struct, frozen=True):
    """path      from a package of the spec to this one, both included
    trust     how certain its requirements are
    compiles  the sign that a build needs a compiler, None for pure Python
    unfit     it has wheels, and none fits
    glibc     with which, or a later one, a wheel would; None where none does
    python    with which a wheel would; None where none does
    late      its wheels for the target came after the spec's `exclude-newer`
    fetches   the index from which its build downloads the wheel, where it holds nothing itself
    lacks     what its build imports beside what it declares
    targets   those that need it
    """

    name: str
    version: str
    path: tuple[str, ...]
    trust: Trust
    compiles: str | None
    unfit: bool = False
    glibc: str | None = None
    late: bool = False
    python: str | None = None
    fetches: str | None = None
    lacks: BuildLacks | None = None
    targets: tuple[str, ...] = ()


class BuildNeeds(AnswerNo):
    """The build of a source imports what it doesn't declare, and the spec doesn't name. `line` is all that it requires,
    for `build-dependencies` of the whole spec, or of `tables`, targets with tables of their own. `listed`: such a table
    has the key already."""

    code = "build-needs"

    def __init__(
        self, pin: Pin | NeededSource, lacks: BuildLacks, targets: Sequence[str], tables: Sequence[str], *, listed: bool
    ) -> None:
        self.line, self.tables, self.listed = lacks.line, tuple(tables), listed
        super().__init__(
            f"{', '.join(targets)}: the build of {pin.name} {pin.version} imports {', '.join(lacks.modules)}, which "
            "neither its [build-system] nor the spec names"
        )
        self.about, self.targets = (pin.name,), tuple(targets)


def with_lines(needs: Iterable[BuildNeeds]) -> list[BuildNeeds]:
    """Give the errors of builds with their hint: of those that belong to one table, the last has the line of all."""
    every = list(needs)
    tables: dict[tuple[str, ...], list[BuildNeeds]] = {}
    for one in every:
        tables.setdefault(one.tables, []).append(one)
    for names, several in tables.items():
        where = " and ".join(f"[targets.{one}.pip]" for one in names) or "[pip]"
        entries = ", ".join(f"{one.about[0]} = {inline_strings(one.line)}" for one in several)
        listed = any(one.listed for one in several)
        added = (
            f"build-dependencies of {where}: {entries}" if listed else f"{where}: build-dependencies = {{ {entries} }}"
        )
        several[-1].hint = f"run the same command with --allow-needed, or add to {added}"
    return every


class SourcesNeeded(AnswerNo):
    """The solution needs packages from source whose builds run their code, and that `allow-source` doesn't name.

    `names` are those to allow.
    """

    code = "source-needed"

    def __init__(self, needed: Mapping[NeededSource, Sequence[str]]) -> None:
        """`needed` has the targets of each."""
        of = (replace(one, targets=one.targets or tuple(targets)) for one, targets in needed.items())
        self.needed = tuple(sorted(of, key=lambda one: (one.name, one.version, one.path)))
        self.names = tuple(dict.fromkeys(one.name for one in self.needed))
        targets = sorted({target for several in needed.values() for target in several})
        said: dict[tuple[str, str], NeededSource] = {}
        for one in self.needed:
            said.setdefault((one.name, one.version), one)
        told = "; ".join(map(_line, said.values()))
        count = f"{len(said)} packages" if len(said) > 1 else "a package"
        source = "from source" if any(one.unfit or one.late for one in self.needed) else "published only as source"
        super().__init__(
            f"{', '.join(targets)}: the newest solution needs {count} {source}: {told}" + _open_end(self.needed),
            hint=_allowing(self.names) + _naming_indexes(self.needed),
        )
        self.about = tuple(dict.fromkeys(one.path[0] for one in self.needed))
        self.targets, self.ways = tuple(targets), (*_newer_glibc(self.needed), *_other_python(self.needed))

    def without(self, replaced: Collection[str]) -> SourcesNeeded | None:
        """Give it without the sources that packages of the spec alone lead to in whose place another is to be named;
        None where that is all."""
        left = [one for one in self.needed if one.path[0] not in replaced]
        if len(left) == len(self.needed):
            return self
        return SourcesNeeded(dict.fromkeys(left, self.targets)) if left else None


def names_needed(error: EnvspecError) -> tuple[str, ...]:
    """Name the packages whose sources an error asks to allow, those of a solution or of a URL; none for any other."""
    if isinstance(error, SourcesNeeded):
        return error.names
    return tuple(error.about) if error.code == SourcesNeeded.code else ()


def take_in_one_line(errors: Iterable[EnvspecError]) -> None:
    """Let the last of the errors that ask for sources name those of all, where there are several."""
    needed = [one for one in errors if names_needed(one)]
    if len(needed) > 1:
        for one in needed:
            one.hint = None
        names = tuple(dict.fromkeys(name for one in needed for name in names_needed(one)))
        needed[-1].hint = _allowing(names)


def _allowing(names: Sequence[str]) -> str:
    """Name the option and the line that allow sources."""
    listed = ", ".join(f'"{name}"' for name in names)
    lines = f"or add to [pip]: allow-source = [{listed}]"
    return f"if you trust the code of what is built from source, run the same command with --allow-needed, {lines}"


def _naming_indexes(needed: Sequence[NeededSource]) -> str:
    """Name the index whose wheels the builds of sources download: named by the spec, it needs no build of these."""
    address = next((one.fetches for one in needed if one.fetches), None)
    if address is None:
        return ""
    from_there = sorted({f'{one.name} = "maker"' for one in needed if one.fetches == address})
    lines = f'indexes = {{ maker = "{address}" }} and sources = {{ {", ".join(from_there)} }}'
    return f"; or if you trust their maker's index, lock its wheels by hash: add to [pip] {lines}"


def _open_end(needed: Sequence[NeededSource]) -> str:
    """Say that the list may be incomplete, if requirements aren't certain."""
    names = sorted({one.name for one in needed if one.trust != "static"})
    if not names:
        return ""
    verb = "requires is" if len(names) == 1 else "require is"
    return f"; what {', '.join(names)} {verb} certain only after a build, so there may be more"


def _newer_glibc(needed: Sequence[NeededSource]) -> Iterator[Way]:
    """Name the glibc with which no source is needed for want of a wheel."""
    floors = [one.glibc for one in needed if one.glibc]
    if floors:
        newest = max(floors, key=numbers)
        yield Way(glibc=newest)


def _other_python(needed: Sequence[NeededSource]) -> Iterator[Way]:
    """Name the Python with which no source is needed for want of a wheel."""
    pythons = {one.python for one in needed if one.unfit and not one.glibc}
    if len(pythons) == 1 and (python := pythons.pop()):
        yield Way(python=python)


def _line(one: NeededSource) -> str:
    notes = [" → ".join(one.path)] if len(one.path) > 1 else []
    contents = f"needs a compiler: {one.compiles}" if one.compiles else "pure Python"
    notes.append(f"its build downloads a wheel from {one.fetches}" if one.fetches else contents)
    if one.trust != "static":
        notes.append(f"requirements {one.trust}")
    if one.late:
        notes.append("its wheels for this platform came after exclude-newer")
    elif one.unfit:
        python = f"none of its wheels fits, but those for Python {one.python}" if one.python else ""
        notes.append(
            f"its wheels are for glibc {one.glibc} and later" if one.glibc else python or "none of its wheels fits"
        )
    return f"{one.name} {one.version} ({', '.join(notes)})"


def needed_source(
    package: Found, facts: SourceFacts, request: Request, edges: Mapping[str, Sequence[str]], releases: Releases
) -> NeededSource:
    """Describe a package that is needed from source; `edges` are the requirements that hold of each package of the
    solution."""
    has_torch = not TORCHES.isdisjoint(edges)
    release = next((one for one in releases(package.name) if one.version == package.version), None)
    wheels = release.wheels if release else ()
    path = _path(package.name, request, edges)
    return NeededSource(
        package.name,
        str(package.version),
        path,
        facts.trust,
        facts.compiles,
        bool(wheels),
        needed_glibc(wheels, request),
        release is not None and wheels_fit([file for file, _ in release.late], request),
        needed_python(wheels, request),
        facts.fetches,
        _lacks(package.name, facts, has_torch),
    )


def _lacks(name: str, facts: SourceFacts, has_torch: bool) -> BuildLacks | None:
    """Give what a build surely lacks before it's asked, or what it declares is solved."""
    there = dict.fromkeys((requirement_name(line) for line in facts.builds if is_requirement(line)), "")
    missing = facts.imports.lacking(name, there, has_torch=has_torch)
    sure = missing and (TORCH in missing or ALONE.issuperset(there))
    return BuildLacks(missing, facts.imports.requirements(facts.builds, missing)) if sure else None


def _path(name: str, request: Request, edges: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Find the shortest path from a package of the spec."""
    ways: dict[str, tuple[str, ...]] = {root: (root,) for root in sorted(map(requirement_name, request.requirements))}
    waiting = list(ways)
    for asker in waiting:
        if asker == name:
            return ways[asker]
        for needed in sorted({head_of(line).name for line in edges.get(asker, ())}):
            if needed not in ways:
                ways[needed] = (*ways[asker], needed)
                waiting.append(needed)
    return (name,)
