"""uv's answer: the packages of the pylock.toml (PEP 751) that it writes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote, urlsplit

from msgspec import Meta, Struct, convert
from packaging.version import Version

from envspec.base.documents import read_toml
from envspec.base.errors import InternalError
from envspec.base.records import RecordWithNotes
from envspec.packages.requirement import canonical_name
from envspec.packages.variants import WheelOfVariant


class Found(Struct, frozen=True):
    """One package of uv's answer. Exactly one of `files` (wheels or one sdist, as index files), `git` and `archive` is
    set."""

    name: str
    version: str | None
    files: tuple[FoundFile, ...] = ()
    git: tuple[str, str, str | None] | None = None
    """URL, full commit, subdirectory."""
    revision: str | None = None
    """What a requirement asks git for: a branch, a tag, a commit; None for the default branch."""
    archive: FoundFile | None = None


class FoundFile(RecordWithNotes, frozen=True, eq=False):
    notes: ClassVar = frozenset({"uploaded", "provenance", "yanked", "requires_python", "of_other_index"})

    url: str
    file: str
    sha256: str | None
    size: int | None = None
    metadata_sha256: str | None = None
    """The sha256 of the METADATA beside the file, from the index's page."""
    uploaded: str | None = None
    """When the file came to its index: RFC 3339 in UTC, None where the index doesn't say."""
    provenance: str | None = None
    """Where its attestations are (PEP 740), None where the index's page names no such place."""
    variant: WheelOfVariant | None = None
    """What the index says of it where it is a variant's wheel."""
    yanked: bool = False
    """Whether its publisher withdrew it."""
    requires_python: str | None = None
    """What its page says of it, where that isn't the same for all files of its release."""
    of_other_index: bool = False
    """Whether the index proxy served it from an index that isn't PyTorch's."""


# What uv writes, as far as it counts.


class _File(Struct, rename="kebab"):
    hashes: Annotated[dict[str, str], Meta(min_length=1)]
    url: str
    name: str | None = None
    size: int | None = None
    upload_time: datetime | None = None


class _Repository(Struct, rename="kebab"):
    url: str
    commit_id: str
    requested_revision: str | None = None
    subdirectory: str | None = None


class _Package(Struct):
    name: str
    version: str | None = None
    wheels: tuple[_File, ...] = ()
    sdist: _File | None = None
    archive: _File | None = None
    vcs: _Repository | None = None
    directory: dict[str, Any] | None = None


class _Answer(Struct):
    packages: tuple[_Package, ...]


def read_pylock(text: str) -> tuple[Found, ...]:
    """Read the packages of a pylock.toml that uv wrote (PEP 751). Raises InternalError if it isn't one."""
    try:
        return tuple(map(_read_package, convert(read_toml(text), _Answer).packages))
    except ValueError as error:
        raise InternalError(f"uv's answer isn't valid by PEP 751: {error}") from None


def _read_package(package: _Package) -> Found:
    name, version = package.name, None if package.version is None else str(Version(package.version))
    if canonical_name(name) != name:
        raise ValueError(f"{name} isn't a normalised name")
    if package.directory is not None:
        raise InternalError(f"{name} resolved to a local folder, which a lock can't pin")
    if vcs := package.vcs:
        return Found(name, version, git=(vcs.url, vcs.commit_id, vcs.subdirectory), revision=vcs.requested_revision)
    if package.archive is not None:
        return Found(name, version, archive=_read_file(package.archive))
    files = package.wheels or ((package.sdist,) if package.sdist else ())
    if not files:
        raise ValueError(f"{name} has neither files nor an address")
    return Found(name, version, files=tuple(map(_read_file, files)))


def _read_file(file: _File) -> FoundFile:
    name = file.name or unquote(urlsplit(file.url).path).rpartition("/")[2]
    uploaded = file.upload_time.isoformat() if file.upload_time else None
    return FoundFile(file.url, name, file.hashes.get("sha256"), file.size, uploaded=uploaded)


def last_error(stderr: str) -> str:
    """Give uv's own error: the last that begins at the margin. What stands before it may quote others."""
    return stderr[stderr.rfind("\nerror: ") + 1 :]
