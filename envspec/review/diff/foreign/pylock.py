"""pylock.toml (PEP 751)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.pylock import Package

from envspec.base.redact import without_credentials
from envspec.lock.model import GitSource
from envspec.packages.pylock import File, file_name, parse_pylock
from envspec.packages.requirement import canonical_name
from envspec.review.diff.foreign.selection import Offers
from envspec.review.diff.foreign.shape import Malformed, artifact, index_name
from envspec.review.diff.foreign.universal import Universal, UniversalPackage

KNOWS = frozenset({"index", "files"})
"""Edges are optional in the format, and the tools leave them out."""


def read(data: Mapping[str, Any]) -> Universal:
    """Return the document's packages, without local folders. Raises Malformed."""
    try:
        lock = parse_pylock(data)
    except ValueError as error:
        raise Malformed(str(error)) from None
    # a tool may have groups of its own making among the default ones: these aren't for anyone to choose
    unasked = tuple(map(canonical_name, lock.default_groups or ()))
    groups = dict.fromkeys((*map(canonical_name, lock.dependency_groups or ()), *unasked))
    offers = Offers(tuple(lock.extras or ()), tuple(groups), default_groups=unasked)
    python = None if lock.requires_python is None else str(lock.requires_python)
    entries = tuple(_entry(one) for one in lock.packages if not one.directory)
    return Universal(entries, python, offers, tuple(map(str, lock.environments or ())))


def _entry(package: Package) -> UniversalPackage:
    git = url = None
    if vcs := package.vcs:
        git = GitSource(without_credentials(vcs.url or vcs.path or ""), vcs.commit_id, vcs.subdirectory)
    if package.archive:
        url = without_credentials(package.archive.url or "")
    files: list[File] = [file for file in (*(package.wheels or ()), package.sdist, package.archive) if file]
    index = package.index or next((file.url for file in files), None)
    return UniversalPackage(
        package.name,
        "0" if package.version is None else str(package.version),
        "git" if git else "url" if url else index_name(index),
        tuple(artifact(file_name(file), file.hashes, file.size) for file in files),
        markers=(str(package.marker),) if package.marker else (),
        git=git,
        url=url,
    )
