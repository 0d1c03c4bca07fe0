"""A checked document's project, and its packages that are built from source."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.base.reader.document import key_path, show
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.packages.names import normalise_requirement, requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.stated import StatedMetadata
from envspec.spec.dependencies import pip_dependencies
from envspec.spec.model import Located, ProjectParts
from envspec.spec.values import BadValue, specifier


def stated_metadata(checked: Checked, *table: str | int) -> tuple[StatedMetadata, ...]:
    """Return the dependencies that the array at `table` states. Problems go to `checked`.

    Entries are sorted by name; those of one package keep the file's order, since the first that fits counts.
    """
    found: list[StatedMetadata] = []
    for path, _ in checked.children(*table):
        name, version = checked.value(*path, "name"), _version(checked, (*path, "version"))
        lines = (normalise_requirement(one.text) for one in pip_dependencies(checked, *path, "dependencies"))
        one = StatedMetadata(canonical_name(name or ""), version, tuple(sorted(lines)))
        if any((other.name, other.version) == (one.name, one.version) for other in found):
            checked.problem(path, f"{key_path(path)} states {one.title} a second time", "remove one of them")
        found.append(one)
    return tuple(sorted(found, key=lambda one: one.name))


def _version(checked: Checked, path: Path) -> str:
    text = checked.value(*path)
    if text is None:
        return ""
    try:
        return specifier(text)
    except BadValue as error:
        checked.problem(path, f"{key_path(path)}: {show(text)} {error.reason}", error.hint)
        return ""


def check_stated_metadata(
    checked: Checked, table: Path, stated: Iterable[StatedMetadata], asked: Iterable[Located]
) -> None:
    """Refuse metadata that a pip table states without a version for what comes from git or a URL: there is no index to
    give it one."""
    by_address = {requirement_name(one.text) for one in asked if " @ " in one.text}
    for one in stated:
        if one.name in by_address and one.exact is None:
            checked.problem(
                (*table, "metadata"),
                f"{key_path((*table, 'metadata'))} states {one.title}, which comes from git or a URL, without its exact"
                " version",
                f'add it to the entry, for example: {{ name = "{one.name}", version = "1.0", dependencies = […] }}',
            )


def build_dependencies(checked: Checked, *table: str | int) -> dict[str, tuple[Located, ...]]:
    """Return what builds need by the table at `table`, by the packages' normalised names. Problems go to `checked`."""
    found: dict[str, tuple[Located, ...]] = {}
    for path, _ in checked.children(*table):
        name = canonical_name(str(path[-1]))
        if name in found:
            checked.problem(path, f"{key_path(table)} names {name} twice", "join the two", at_key=True)
        found[name] = pip_dependencies(checked, *path)
    return found


def project_parts(checked: Checked, *table: str | int) -> ProjectParts:
    """Return the extras and dependency groups that the table at `table` names."""

    def names(key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(canonical_name(name) for _, name in checked.children(*table, key)))

    return ProjectParts(names("extras"), names("groups"))
