"""The error for all packages that a solution needs from source and that the spec doesn't allow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from envspec.artifacts.sdist.build_imports import BuildLacks
from envspec.artifacts.sdist.static_source import Trust
from envspec.base.errors import AnswerNo, EnvspecError
from envspec.base.finding import merge_targets
from envspec.lock.model import Pin
from envspec.lock.toml_text import inline_strings
from envspec.packages.version_numbers import numbers
from envspec.spec.way import Way


class NeededSource(Struct, frozen=True):
    """path      from a package of the spec to this one, both included
    trust     how certain its requirements are
    compiles  the sign that a build needs a compiler, None for pure Python
    unfit     it has wheels, and none fits
    glibc     with which, or a later one, a wheel would; None where none does
    python    with which a wheel would; None where none does
    late      its wheels for the target came after the spec's `exclude-newer`
    fetches   the index from which its build downloads the wheel, where the source itself is empty
    lacks     the imports of its build that it doesn't declare
    targets   the targets that need it
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

    @property
    def line(self) -> str:
        """Its name and version, the path to it, and the known facts about its build and its wheels."""
        notes = [" → ".join(self.path)] if len(self.path) > 1 else []
        contents = f"needs a compiler: {self.compiles}" if self.compiles else "pure Python"
        notes.append(f"its build downloads a wheel from {self.fetches}" if self.fetches else contents)
        if self.trust != "static":
            notes.append(f"requirements {self.trust}")
        if self.late:
            notes.append("its wheels for this platform came after exclude-newer")
        elif self.unfit and self.glibc:
            notes.append(f"its wheels are for glibc {self.glibc} and later")
        elif self.unfit:
            notes.append("none of its wheels fits" + (f", but those for Python {self.python}" if self.python else ""))
        return f"{self.name} {self.version} ({', '.join(notes)})"


class BuildNeeds(AnswerNo):
    """The build of a source imports modules that neither it declares nor the spec names. `line` has all its
    requirements, for `build-dependencies` of the whole spec, or of `tables`, targets with tables of their own.
    `listed`: such a table has the key already."""

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
    """Give the errors of builds with their hint: the last error of each table has the line for all of that table."""
    every = list(needs)
    tables: dict[tuple[str, ...], list[BuildNeeds]] = {}
    for needed in every:
        tables.setdefault(needed.tables, []).append(needed)
    for names, of_table in tables.items():
        where = " and ".join(f"[targets.{name}.pip]" for name in names) or "[pip]"
        entries = ", ".join(f"{needed.about[0]} = {inline_strings(needed.line)}" for needed in of_table)
        listed = any(needed.listed for needed in of_table)
        line = f"build-dependencies of {where}: {entries}"
        added = line if listed else f"{where}: build-dependencies = {{ {entries} }}"
        of_table[-1].hint = f"run the same command with --allow-needed, or add to {added}"
    return every


class SourcesNeeded(AnswerNo):
    """The solution needs packages from source whose builds run their code, and that `allow-source` doesn't name.

    `names` are those to allow.
    """

    code = "source-needed"

    def __init__(self, needed: Iterable[NeededSource]) -> None:
        every = merge_targets(needed)
        self.needed = tuple(sorted(every, key=lambda source: (source.name, source.version, source.path)))
        self.names = tuple(dict.fromkeys(source.name for source in self.needed))
        targets = sorted({target for source in self.needed for target in source.targets})
        lines: dict[tuple[str, str], str] = {}
        for source in self.needed:
            lines.setdefault((source.name, source.version), source.line)
        count = f"{len(lines)} packages" if len(lines) > 1 else "a package"
        has_wheels = any(source.unfit or source.late for source in self.needed)
        origin = "from source" if has_wheels else "published only as source"
        super().__init__(
            f"{', '.join(targets)}: the newest solution needs {count} {origin}: {'; '.join(lines.values())}"
            + _open_end(self.needed),
            hint=_allowing(self.names) + _naming_indexes(self.needed),
        )
        self.about = tuple(dict.fromkeys(source.path[0] for source in self.needed))
        self.targets, self.ways = tuple(targets), tuple(_other_machines(self.needed))

    def without(self, replaced: Collection[str]) -> SourcesNeeded | None:
        """Give the error without the sources to which the `replaced` packages of the spec lead; None where no source is
        left."""
        left = [source for source in self.needed if source.path[0] not in replaced]
        if len(left) == len(self.needed):
            return self
        return SourcesNeeded(left) if left else None


def names_needed(error: EnvspecError) -> tuple[str, ...]:
    """Name the packages whose sources an error asks to allow, those of a solution or of a URL; none for any other."""
    if isinstance(error, SourcesNeeded):
        return error.names
    return tuple(error.about) if error.code == SourcesNeeded.code else ()


def take_in_one_line(errors: Iterable[EnvspecError]) -> None:
    """Where several errors ask for sources, let the last one name the sources of all."""
    needed = [error for error in errors if names_needed(error)]
    if len(needed) > 1:
        for error in needed:
            error.hint = None
        needed[-1].hint = _allowing(tuple(dict.fromkeys(name for error in needed for name in names_needed(error))))


def _allowing(names: Sequence[str]) -> str:
    """Name the option and the line that allow sources."""
    listed = ", ".join(f'"{name}"' for name in names)
    lines = f"or add to [pip]: allow-source = [{listed}]"
    return f"if you trust the code of what is built from source, run the same command with --allow-needed, {lines}"


def _naming_indexes(needed: Sequence[NeededSource]) -> str:
    """Name the index whose wheels the builds of sources download: named by the spec, it needs no build of these."""
    address = next((source.fetches for source in needed if source.fetches), None)
    if address is None:
        return ""
    from_there = sorted({f'{source.name} = "maker"' for source in needed if source.fetches == address})
    lines = f'indexes = {{ maker = "{address}" }} and sources = {{ {", ".join(from_there)} }}'
    return f"; or if you trust their maker's index, lock its wheels by hash: add to [pip] {lines}"


def _open_end(needed: Sequence[NeededSource]) -> str:
    """Say that the list may be incomplete, if requirements aren't certain."""
    names = sorted({source.name for source in needed if source.trust != "static"})
    if not names:
        return ""
    verb = "requires is" if len(names) == 1 else "require is"
    return f"; what {', '.join(names)} {verb} certain only after a build, so there may be more"


def _other_machines(needed: Sequence[NeededSource]) -> Iterator[Way]:
    """Name the glibc, and the Python, with which no source is needed for want of a wheel."""
    if versions := [source.glibc for source in needed if source.glibc]:
        yield Way(glibc=max(versions, key=numbers))
    pythons = {source.python for source in needed if source.unfit and not source.glibc}
    if len(pythons) == 1 and (python := pythons.pop()):
        yield Way(python=python)
