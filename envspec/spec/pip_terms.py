"""The terms of `[pip]` and `[targets.X.pip]` besides dependencies: their reading, packages from source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType

from envspec.base.reader.document import key_path, show
from envspec.base.reader.nodes import (
    Text,
)
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.packages.names import normalise_requirement, requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.stated import StatedMetadata
from envspec.spec.model import Located, PipTerms, acceptance_key
from envspec.spec.values import Dependency, bound, override, pip_dependencies, specifier

# A checked document's project, and its packages that are built from source.


_VERSION = Text(example="2.8.3", read=specifier)
_OVERRIDE = Text(example="numpy>=2", read=override)


def stated_metadata(checked: Checked, *table: str | int) -> tuple[StatedMetadata, ...]:
    """Return the dependencies that the array at `table` states. Problems go to `checked`.

    Entries are sorted by name; those of one package keep the file's order, since the first that fits counts.
    """
    entries: list[StatedMetadata] = []
    for path, _ in checked.children(*table):
        name, version = checked.value(*path, "name"), checked.read(_VERSION, *path, "version") or ""
        lines = (normalise_requirement(line.text) for line in pip_dependencies(checked, *path, "dependencies"))
        entry = StatedMetadata(canonical_name(name or ""), version, tuple(sorted(lines)))
        if any((other.name, other.version) == (entry.name, entry.version) for other in entries):
            checked.problem(path, f"{key_path(path)} states {entry.title} a second time", "remove one of them")
        entries.append(entry)
    return tuple(sorted(entries, key=lambda entry: entry.name))


def check_stated_metadata(
    checked: Checked, table: Path, stated: Iterable[StatedMetadata], dependencies: Iterable[Located]
) -> None:
    """Refuse metadata that a pip table states without a version for what comes from git or a URL: there is no index to
    give it one."""
    by_address = {requirement_name(dependency.text) for dependency in dependencies if " @ " in dependency.text}
    for entry in stated:
        if entry.name in by_address and entry.exact is None:
            checked.problem(
                (*table, "metadata"),
                f"{key_path((*table, 'metadata'))} states {entry.title}, which comes from git or a URL, without its"
                " exact version",
                f'add it to the entry, for example: {{ name = "{entry.name}", version = "1.0", dependencies = […] }}',
            )


def build_dependencies(checked: Checked, *table: str | int) -> dict[str, tuple[Located, ...]]:
    """Return what builds need by the table at `table`, by the packages' normalised names. Problems go to `checked`."""
    by_name: dict[str, tuple[Located, ...]] = {}
    for path, _ in checked.children(*table):
        name = canonical_name(str(path[-1]))
        if name in by_name:
            checked.problem(path, f"{key_path(table)} names {name} twice", "join the two", at_key=True)
        by_name[name] = pip_dependencies(checked, *path)
    return by_name


def pip_terms(checked: Checked, *path: str | int) -> PipTerms:
    """Return the terms of the pip table at `path`; problems go to `checked`."""
    return checked.record(
        PipTerms,
        *path,
        metadata=stated_metadata(checked, *path, "metadata"),
        build_dependencies=MappingProxyType(build_dependencies(checked, *path, "build-dependencies")),
        constraints=pip_dependencies(checked, *path, "constraints", parse=bound),
        overrides=_overrides(checked, *path, "overrides"),
        accept=MappingProxyType(dict(_acceptances(checked, *path, "accept"))),
    )


def _acceptances(checked: Checked, *path: str | int) -> Iterator[tuple[str, str]]:
    for entry, reason in checked.children(*path):
        code = str(entry[-1])
        if not isinstance(reason, dict):
            yield code, reason
            continue
        for own, of_package in checked.children(*entry):
            yield acceptance_key(code, canonical_name(str(own[-1]))), of_package


def _overrides(checked: Checked, *path: str | int) -> tuple[Located, ...]:
    overrides = []
    lines: dict[tuple[str, ...], int] = {}
    for entry, _ in checked.children(*path):
        text, reason = checked.value(*entry, "requirement"), checked.value(*entry, "reason")
        if text is None or reason is None:
            continue
        at = (*entry, "requirement")
        parsed: Dependency | None = checked.read(_OVERRIDE, *at)
        if parsed is None:
            continue
        place = checked.place(*at)
        if parsed.identity in lines:
            hint = f"line {lines[parsed.identity]} already has it: join the two"
            checked.problem(at, f"{key_path(path)}: {show(text)} overrides {parsed.name} a second time", hint)
            continue
        lines[parsed.identity] = place.line
        overrides.append(Located(parsed.text, place, reason.strip()))
    return tuple(overrides)


def check_names(checked: Checked) -> None:
    """Refuse a flat index with the name of a simple one: the name of an index says where a package comes from."""
    simple = {str(path[-1]): checked.place(*path, at_key=True) for path, _ in checked.children("pip", "indexes")}
    for table in _tables(checked):
        for path, _ in checked.children(*table, "find-links"):
            name = str(path[-1])
            if name in simple:
                line = f" (line {simple[name].line})" if simple[name].line else ""
                message = f"{key_path(path)}: pip.indexes already has an index {show(name)}{line}"
                checked.problem(path, message, "give one of them another name", at_key=True)


def flat_names(checked: Checked) -> list[str]:
    """Return the names of all flat indexes that the document gives, the spec's and those of its targets."""
    return [str(path[-1]) for table in _tables(checked) for path, _ in checked.children(*table, "find-links")]


def _tables(checked: Checked) -> list[Path]:
    return [("pip",), *((*path, "pip") for path, _ in checked.children("targets"))]
