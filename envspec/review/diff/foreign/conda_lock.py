"""conda-lock.yml (version 1): a target for each platform, conda and pip packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envspec.lock.model import Lock, Pin
from envspec.packages.requirement import canonical_name
from envspec.review.diff.foreign.shape import (
    artifact,
    channel_name,
    conda_file,
    file_name,
    index_name,
    lock_of,
    optional,
    string,
    table,
    tables,
)

KNOWS = frozenset({"edges", "index", "files"})


def read(data: Mapping[str, Any]) -> Lock:
    """Return what is installed on each platform. Raises Malformed."""
    platforms: dict[str, dict[tuple[str, str], Pin]] = {}
    for package in tables(data.get("package"), "package"):
        pin = _pin(package)
        platforms.setdefault(string(package.get("platform"), "platform"), {})[pin.kind, pin.name] = pin
    return lock_of({(platform, platform): pins.values() for platform, pins in platforms.items()})


def _pin(package: Mapping[str, Any]) -> Pin:
    name, version = string(package.get("name"), "name"), string(package.get("version"), "version")
    url = string(package.get("url", ""), "url")
    found = artifact(url, table(package.get("hash"), "hash"))
    requires = {
        key: string(text, "a dependency") for key, text in table(package.get("dependencies"), "dependencies").items()
    }
    if package.get("manager") == "pip":
        edges = tuple(f"{key} {_pep508(text)}".rstrip() for key, text in requires.items())
        return Pin("pip", canonical_name(name), version, index_name(url), found, edges)
    build = optional(package.get("build"), "build")
    if build is None:
        try:
            build = conda_file(file_name(url))[2]
        except ValueError:
            build = None
    edges = tuple(f"{key} {text}".rstrip() for key, text in requires.items())
    return Pin("conda", name.lower(), version, channel_name(url), found, edges, build=build)


def _pep508(text: str) -> str:
    """Return a version specifier in pip's form; conda-lock writes `*` for none."""
    return "" if text.strip() == "*" else text
