"""The corrections that conda-forge makes to the records of its packages, as bounds between packages.

Their language is that of `recipe/README.md` in conda-forge/conda-forge-repodata-patches-feedstock: documents of an
`if`, whose conditions all hold for a record, and a `then`, which changes the record's `depends` and `constrains`. What
can be said without a record is a bound of a package in some versions on another one. All else (builds, platforms, what
is loosened or renamed) is left out, and counted by its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from envspec.base.documents import Unreadable, read_yaml_documents
from envspec.base.errors import InputError
from envspec.packages.names import conda_name
from envspec.packages.requirement import Clause
from tools.refresh.conda_bounds import Inexpressible, clauses, read_spec

if TYPE_CHECKING:
    from packaging.version import Version

_ADDED = ("add_depends", "add_constrains")
_REPLACED = ("replace_depends", "replace_constrains")
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
_RECORD = ("has_depends", "not_has_depends", "has_constrains", "not_has_constrains")
_NOARCH = ("subdir", "subdir_in", "subdir_eq")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NOARCH_BUILD = re.compile(r"pyh[0-9a-f]+_\d+")
_GLOB = frozenset("*?[")


@dataclass(frozen=True)
class When:
    """The releases that a patch is for. `versions` are a specifier's clauses, `globs` patterns of which one must match,
    `before` the moment when the newest of the patched packages was built, None without a bound. `first_builds`: a later
    build of the same version has the bound already."""

    versions: tuple[Clause, ...] = ()
    globs: tuple[str, ...] = ()
    before: datetime | None = None
    first_builds: bool = False

    @property
    def named(self) -> frozenset[str]:
        """The single versions that it names, as written."""
        exact = (version for operator, version in self.versions if operator == "==")
        return frozenset(version for version in (*exact, *self.globs) if not _GLOB & set(version))

    def admits(self, version: Version, uploaded: datetime | None) -> bool:
        """Say whether a release, and the time of its upload, is meant. One of unknown time is before no moment."""
        from packaging.specifiers import SpecifierSet

        if self.before is not None and (uploaded is None or uploaded >= self.before):
            return False
        if self.globs and not any(_matches(version, glob) for glob in self.globs):
            return False
        return SpecifierSet(",".join(map("".join, self.versions))).contains(version, prereleases=True)


@dataclass(frozen=True)
class Patch:
    """A bound that a file puts on conda's packages of these names: they need `dependency` within `bound`."""

    file: str
    packages: tuple[str, ...]
    when: When
    dependency: str
    bound: tuple[Clause, ...]


@dataclass(frozen=True)
class LeftOut:
    """Something that a file says and that isn't a bound between two packages. `reason` is one of a few."""

    file: str
    what: str
    reason: str


def patches_of(files: Mapping[str, str]) -> tuple[tuple[Patch, ...], tuple[LeftOut, ...]]:
    """Read patches from the texts of files, by name. Raises InputError for one that isn't YAML."""
    found = [one for file, text in sorted(files.items()) for one in _of_file(file, text)]
    patches = tuple(one for one in found if isinstance(one, Patch))
    return patches, tuple(one for one in found if isinstance(one, LeftOut))


def _of_file(file: str, text: str) -> Iterator[Patch | LeftOut]:
    try:
        documents = read_yaml_documents(text)
    except Unreadable as error:
        raise InputError(f"{file}:{error.line}: it isn't YAML: {error.reason}") from None
    for document in documents:
        if document is not None:
            yield from _of_document(file, document)


def _of_document(file: str, document: Any) -> Iterator[Patch | LeftOut]:
    try:
        conditions = {str(key): value for key, value in dict(document["if"]).items()}
        instructions = list(document["then"])
        changes = [change for instruction in instructions for change in dict(instruction).items()]
    except (TypeError, ValueError, KeyError):
        yield LeftOut(file, str(document), "it isn't a patch")
        return
    for action, value in changes:
        for one in value if isinstance(value, list) else [value]:
            try:
                dependency, bound = _change(action, one)
                packages, when = _condition(conditions, dependency)
                yield Patch(file, packages, when, dependency, bound)
            except Inexpressible as error:
                yield LeftOut(file, f"{conditions} {action} {one}", str(error))
            except (TypeError, ValueError, LookupError, OverflowError):
                yield LeftOut(file, f"{conditions} {action} {one}", "it isn't a patch")


def _change(action: str, value: Any) -> tuple[str, tuple[Clause, ...]]:
    """Read the bound that an action adds, and whose. Raises Inexpressible."""
    if action in _ADDED:
        name, bound = _spec(str(value))
    elif action in _REPLACED:
        name, bound = _replacement(str(value["old"]), str(value["new"]))
    elif action == "tighten_depends":
        name, bound = str(value["name"]), _bound_above(value)
    else:
        raise Inexpressible("it loosens, removes, renames or resets, or concerns a feature")
    if conda_name(name) != name or _GLOB & set(name):
        raise Inexpressible("it names no single dependency")
    if name in ("python", "python_abi", "pypy") or name.startswith("__"):
        raise Inexpressible("it concerns Python itself or the machine")
    if not bound:
        raise Inexpressible("it adds no bound")
    return name, bound


def _bound_above(value: Mapping[str, Any]) -> tuple[Clause, ...]:
    if value.get("upper_bound") is None:
        raise Inexpressible("the bound is relative to the build")
    return _clauses(f"<{value['upper_bound']}")


def _replacement(old: str, new: str) -> tuple[str, tuple[Clause, ...]]:
    """Give the clauses that a new spec adds to the old one."""
    if new.startswith("${old},"):
        return conda_name(old.replace("?( *)", "")), _clauses(new.removeprefix("${old},"))
    name, bound = _spec(new)
    try:
        before, known = read_spec(old.replace("?( *)", ""))
    except Inexpressible:
        before, known = conda_name(old.replace("?( *)", "")), ()
    if before != name:
        raise Inexpressible("it loosens, removes, renames or resets, or concerns a feature")
    return name, tuple(clause for clause in bound if clause not in known)


def _spec(text: str) -> tuple[str, tuple[Clause, ...]]:
    if "$" in text:
        raise Inexpressible("the bound is relative to the build")
    try:
        return read_spec(text)
    except Inexpressible:
        raise Inexpressible("it names a build, a pre-release, or a choice of versions") from None


def _clauses(text: str) -> tuple[Clause, ...]:
    if "$" in text:
        raise Inexpressible("the bound is relative to the build")
    try:
        return clauses(text)
    except Inexpressible:
        raise Inexpressible("it names a build, a pre-release, or a choice of versions") from None


def _condition(conditions: Mapping[str, Any], dependency: str) -> tuple[tuple[str, ...], When]:
    """Read the packages and versions that conditions name. Raises Inexpressible for what is said of builds."""
    packages: tuple[str, ...] = ()
    versions: list[Clause] = []
    globs: tuple[str, ...] = ()
    before = None
    first_builds = False
    for key, value in conditions.items():
        values = [str(one) for one in (value if isinstance(value, list) else [value])]
        if key in ("name", "name_in"):
            packages = tuple(values)
        elif key in ("version", "version_in"):
            globs = tuple(values)
        elif key.startswith("version_") and key[8:] in _COMPARED:
            versions.append((_COMPARED[key[8:]], values[0]))
        elif key in ("timestamp_lt", "timestamp_le"):
            before = _EPOCH + timedelta(milliseconds=int(value))
        elif key in _RECORD:
            _accept_record(values, dependency)
        elif key.startswith("build_number") or (key == "build" and _NOARCH_BUILD.fullmatch(values[0])):
            first_builds = True
        elif key not in _NOARCH or values != ["noarch"]:
            raise Inexpressible("it concerns some builds of a version")
    if not packages or any(_GLOB & set(name) for name in packages):
        raise Inexpressible("it names no single package")
    _refuse_other_versions(versions)
    return packages, When(tuple(versions), globs, before, first_builds)


def _accept_record(patterns: Sequence[str], dependency: str) -> None:
    """Conditions on the very dependency that is bound are asked of PyPI's METADATA instead. Others tell builds apart,
    but for a Python that is old enough for all."""
    for pattern in patterns:
        name = conda_name(pattern.replace("?( *)", "")).rstrip("*")
        if name != dependency and not (name == "python" and "<" not in pattern):
            raise Inexpressible("it depends on other dependencies of the record")


def _refuse_other_versions(versions: Sequence[Clause]) -> None:
    from packaging.version import Version

    for _, version in versions:
        try:
            Version(version)
        except ValueError:
            raise Inexpressible("its versions aren't of PEP 440") from None


def _matches(version: Version, glob: str) -> bool:
    from packaging.version import Version

    if _GLOB & set(glob):
        return fnmatchcase(str(version), glob)
    try:
        return version == Version(glob)
    except ValueError:
        return False
