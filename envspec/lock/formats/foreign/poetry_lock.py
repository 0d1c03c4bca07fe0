"""poetry.lock: universal. Packages have markers from lock-version 2.1 on. The file doesn't record the direct
requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from envspec.base.redact import without_credentials
from envspec.lock.formats.foreign.selection import Offers
from envspec.lock.formats.foreign.shape import artifact, digest, index_name, optional, string, strings, table, tables
from envspec.lock.formats.foreign.universal import Universal, UniversalPackage
from envspec.lock.model import GitSource
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name

_MAIN = "main"
"""The group of the project's own dependencies; files before lock-version 2.1 name no group."""


def read(data: Mapping[str, Any]) -> Universal:
    """Return the document's packages, without local folders. Raises Malformed."""
    packages = tables(data.get("package"), "package")
    python = optional(table(data.get("metadata"), "metadata").get("python-versions"), "python-versions")
    extras_table = table(data.get("extras"), "extras")
    extras = {canonical_name(name): strings(requirements, name) for name, requirements in extras_table.items()}
    groups = tuple(dict.fromkeys(group for package in packages for group in _groups(package) if group != _MAIN))
    brought = _extras_by_package(packages, extras)
    return Universal(
        tuple(
            _entry(package, brought)
            for package in packages
            if _source(package).get("type") not in ("directory", "file")
        ),
        python,
        # which groups are optional stands in pyproject.toml alone
        Offers(tuple(extras), groups, default_groups=groups),
    )


def _extras_by_package(
    packages: Iterable[Mapping[str, Any]], extras: Mapping[str, Iterable[str]]
) -> dict[str, list[str]]:
    """Return the extras that lead to each package: files before lock-version 2.1 say only that a package is
    optional."""
    edges = {
        canonical_name(string(package.get("name"), "name")): tuple(
            map(canonical_name, table(package.get("dependencies"), "dependencies"))
        )
        for package in packages
    }
    extras_by_name: dict[str, list[str]] = {}
    for extra, requirements in extras.items():
        waiting = [requirement_name(text) for text in requirements]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                extras_by_name.setdefault(name, []).append(extra)
                waiting.extend(edges.get(name, ()))
    return extras_by_name


def _groups(package: Mapping[str, Any]) -> tuple[str, ...]:
    return strings(package.get("groups"), "groups") or (_MAIN,)


def _source(package: Mapping[str, Any]) -> Mapping[str, Any]:
    return table(package.get("source"), "source")


def _entry(package: Mapping[str, Any], brought: Mapping[str, list[str]]) -> UniversalPackage:
    name = canonical_name(string(package.get("name"), "name"))
    source = _source(package)
    where = without_credentials(string(source.get("url", ""), "url"))
    git = url = None
    if source.get("type") == "git":
        commit = string(source.get("resolved_reference", ""), "resolved_reference")
        git = GitSource(where, commit, optional(source.get("subdirectory"), "subdirectory"))
    elif source.get("type") == "url":
        url = where
    files = tuple(
        artifact(string(file.get("file"), "file"), digest(optional(file.get("hash"), "hash")))
        for file in tables(package.get("files"), "files")
    )
    return UniversalPackage(
        name,
        string(package.get("version"), f"the version of {name}"),
        "git" if git else "url" if url else index_name(where),
        () if git else files,
        tuple(_requirements(table(package.get("dependencies"), "dependencies"))),
        tuple(_markers(package, brought.get(name, []))),
        git=git,
        url=url,
    )


def _markers(package: Mapping[str, Any], extras: list[str]) -> Iterator[str]:
    """Return a marker for each group, in pylock.toml's terms; one must hold. A package that is always installed has
    none."""
    markers = package.get("markers")
    alternatives = []
    for group in _groups(package):
        marker = optional(table(markers, "markers").get(group) if isinstance(markers, dict) else markers, "markers")
        parts = [f"({marker})"] if marker else []
        if group != _MAIN:
            parts.append(f"{canonical_name(group)!r} in dependency_groups")
        elif package.get("optional") and extras and "extra" not in (marker or ""):
            parts.append(f"({' or '.join(f'{extra!r} in extras' for extra in extras)})")
        alternatives.append(" and ".join(parts))
    if all(alternatives):
        yield from alternatives


def _requirements(dependencies: Mapping[str, Any]) -> Iterator[str]:
    """Return the edges without version specifiers, for which Poetry has its own syntax."""
    for name, constraints in dependencies.items():
        for constraint in constraints if isinstance(constraints, list) else [constraints]:
            details = constraint if isinstance(constraint, dict) else {}
            extras = strings(details.get("extras"), "extras")
            marker = optional(details.get("markers"), "markers")
            # an optional dependency belongs to an extra, and which one says its marker
            if details.get("optional") and not (marker and "extra" in marker):
                continue
            text = f"{name}[{','.join(extras)}]" if extras else name
            yield f"{text}; {marker}" if marker else text
