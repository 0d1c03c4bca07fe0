"""uv's answer: the packages of the pylock.toml (PEP 751) that it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envspec.documents import read_toml
from envspec.errors import InternalError
from envspec.packages.pylock import file_name, parse_pylock
from envspec.packages.variants import WheelOfVariant

if TYPE_CHECKING:
    from packaging.pylock import Package

    from envspec.packages.pylock import File


@dataclass(frozen=True)
class Found:
    """One package of uv's answer. Exactly one of `files` (wheels or one sdist, as index files), `git` and `archive` is
    set."""

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
    """The sha256 of the METADATA beside the file, from the index's page."""
    uploaded: str | None = field(default=None, compare=False)
    """When the file came to its index: RFC 3339 in UTC, None where the index doesn't say."""
    provenance: str | None = field(default=None, compare=False)
    """Where its attestations are (PEP 740), None where the index's page names no such place."""
    variant: WheelOfVariant | None = None
    """What the index says of it where it is a variant's wheel."""


def read_pylock(text: str) -> tuple[Found, ...]:
    """Read the packages of a pylock.toml that uv wrote (PEP 751). Raises InternalError if it isn't one."""
    try:
        packages = parse_pylock(read_toml(text)).packages
    except ValueError as error:
        raise InternalError(f"uv's answer isn't valid by PEP 751: {error}") from None
    return tuple(map(_found, packages))


def _found(package: Package) -> Found:
    name, version = package.name, None if package.version is None else str(package.version)
    if package.directory:
        raise InternalError(f"{name} resolved to a local folder, which a lock can't pin")
    if package.vcs:
        return Found(name, version, git=(package.vcs.url or "", package.vcs.commit_id, package.vcs.subdirectory))
    if package.archive:
        return Found(name, version, archive=_file(package.archive))
    files = package.wheels or (package.sdist,)
    return Found(name, version, files=tuple(_file(file) for file in files if file))


def _file(file: File) -> FoundFile:
    url, uploaded = file.url or file.path or "", file.upload_time.isoformat() if file.upload_time else None
    return FoundFile(url, file_name(file), file.hashes.get("sha256"), file.size, uploaded=uploaded)
