"""pylock.toml (PEP 751)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envspec.diff.foreign.names import index_name
from envspec.diff.foreign.selection import Offers
from envspec.diff.foreign.shape import artifact, optional, string, strings, table, tables
from envspec.diff.foreign.universal import Universal, UniversalPackage
from envspec.lock.model import Artifact, GitSource
from envspec.packages.requirement import canonical_name
from envspec.redact import without_credentials

KNOWS = frozenset({"index", "files"})
"""Edges are optional in the format, and the tools leave them out."""


def read(data: Mapping[str, Any]) -> Universal:
    """The document's packages, but for folders of the machine. Raises Malformed."""
    packages = tables(data.get("packages"), "packages")
    python = optional(data.get("requires-python"), "requires-python")
    extras, groups, unasked = (
        tuple(map(canonical_name, strings(data.get(key), key)))
        for key in ("extras", "dependency-groups", "default-groups")
    )
    # a tool may have groups of its own making among the default ones: these aren't for anyone to choose
    offers = Offers(extras, tuple(dict.fromkeys((*groups, *unasked))), default_groups=unasked)
    return Universal(tuple(_entry(one) for one in packages if "directory" not in one), python, offers)


def _entry(package: Mapping[str, Any]) -> UniversalPackage:
    name = canonical_name(string(package.get("name"), "name"))
    git = url = None
    if "vcs" in package:
        vcs = table(package["vcs"], "vcs")
        where = without_credentials(string(vcs.get("url", vcs.get("path", "")), "url"))
        subdirectory = optional(vcs.get("subdirectory"), "subdirectory")
        git = GitSource(where, string(vcs.get("commit-id"), "commit-id"), subdirectory)
    files = tuple(_files(package))
    if "archive" in package:
        url = without_credentials(string(table(package["archive"], "archive").get("url", ""), "url"))
    index = optional(package.get("index"), "index") or next((one.get("url") for one in _listed(package)), None)
    marker = optional(package.get("marker"), "marker")
    return UniversalPackage(
        name,
        string(package.get("version", "0"), f"the version of {name}"),
        "git" if git else "url" if url else index_name(optional(index, "index")),
        files,
        markers=(marker,) if marker else (),
        git=git,
        url=url,
    )


def _listed(package: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from tables(package.get("wheels"), "wheels")
    yield from (table(package[key], key) for key in ("sdist", "archive") if key in package)


def _files(package: Mapping[str, Any]) -> Iterator[Artifact]:
    for one in _listed(package):
        where = next((one[key] for key in ("name", "url", "path") if key in one), "")
        yield artifact(string(where, "name"), table(one.get("hashes"), "hashes"), one.get("size"))
