"""What uv answers: the packages of the pylock.toml (PEP 751) that it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tomli

from envspec.errors import InternalError


@dataclass(frozen=True)
class Found:
    """One package of uv's answer. Exactly one of `files` (wheels or one sdist, as index files) and `git` and
    `archive` is set."""

    name: str
    version: str | None
    files: tuple[FoundFile, ...] = ()
    git: tuple[str, str, str | None] | None = None
    """URL, full commit, subdirectory."""
    archive: FoundFile | None = None


@dataclass(frozen=True)
class FoundFile:
    url: str
    file: str
    sha256: str | None
    size: int | None = None
    metadata_sha256: str | None = None
    """What the index's page says of the METADATA beside it."""


def read_pylock(text: str) -> tuple[Found, ...]:
    """The packages of a pylock.toml as uv writes it (PEP 751)."""
    return tuple(_found(package) for package in tomli.loads(text).get("packages", []))


def _found(package: Mapping[str, Any]) -> Found:
    name, version = package["name"], package.get("version")
    if "vcs" in package:
        vcs = package["vcs"]
        return Found(name, version, git=(vcs["url"], vcs["commit-id"], vcs.get("subdirectory")))
    if "archive" in package:
        return Found(name, version, archive=_file(package["archive"]))
    if "directory" in package:
        raise InternalError(f"{name} resolved to a local folder, which no lock can hold")
    files = package.get("wheels") or [package["sdist"]]
    return Found(name, version, files=tuple(_file(entry) for entry in files))


def _file(entry: Mapping[str, Any]) -> FoundFile:
    from urllib.parse import unquote, urlsplit

    url = entry.get("url") or entry.get("path", "")
    name = entry.get("name") or unquote(urlsplit(url).path).rsplit("/", 1)[-1]
    return FoundFile(url=url, file=name, sha256=entry.get("hashes", {}).get("sha256"), size=entry.get("size"))
