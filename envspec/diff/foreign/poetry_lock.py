"""poetry.lock: universal. Markers stand on the packages from lock-version 2.1 on; what was asked for isn't recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envspec.diff.foreign.names import index_name
from envspec.diff.foreign.shape import artifact, digest, optional, string, strings, table, tables
from envspec.diff.foreign.universal import Entry, Universal
from envspec.lock.inputs import canonical_name, without_credentials
from envspec.lock.model import GitSource

KNOWS = frozenset({"edges", "index", "files"})


def read(data: Mapping[str, Any]) -> Universal:
    """The document's packages, but for folders of the machine. Raises Malformed."""
    packages = tables(data.get("package"), "package")
    python = optional(table(data.get("metadata"), "metadata").get("python-versions"), "python-versions")
    return Universal(
        tuple(_entry(one) for one in packages if _source(one).get("type") not in ("directory", "file")), python=python
    )


def _source(package: Mapping[str, Any]) -> Mapping[str, Any]:
    return table(package.get("source"), "source")


def _entry(package: Mapping[str, Any]) -> Entry:
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
        artifact(string(one.get("file"), "file"), digest(optional(one.get("hash"), "hash")))
        for one in tables(package.get("files"), "files")
    )
    return Entry(
        name,
        string(package.get("version"), f"the version of {name}"),
        "git" if git else "url" if url else index_name(where),
        () if git else files,
        tuple(_requirements(table(package.get("dependencies"), "dependencies"))),
        tuple(_markers(package.get("markers"))),
        git=git,
        url=url,
    )


def _markers(value: Any) -> Iterator[str]:
    """One marker, or one for each group."""
    if isinstance(value, dict):
        yield from (string(marker, "markers") for marker in value.values())
    elif value is not None:
        yield string(value, "markers")


def _requirements(dependencies: Mapping[str, Any]) -> Iterator[str]:
    """The edges, without their bounds: Poetry has an own syntax for these."""
    for name, wanted in dependencies.items():
        for one in wanted if isinstance(wanted, list) else [wanted]:
            details = one if isinstance(one, dict) else {}
            extras = strings(details.get("extras"), "extras")
            marker = optional(details.get("markers"), "markers")
            # an optional dependency belongs to an extra, and which one says its marker
            if details.get("optional") and not (marker and "extra" in marker):
                continue
            text = f"{name}[{','.join(extras)}]" if extras else name
            yield f"{text}; {marker}" if marker else text
