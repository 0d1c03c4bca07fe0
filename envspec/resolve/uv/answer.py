"""uv's answer: the packages of the pylock.toml (PEP 751) that it writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct
from packaging.pylock import Package

from envspec.base.documents import read_toml
from envspec.base.errors import InternalError
from envspec.base.records import RecordWithNotes
from envspec.packages.pylock import File, file_name, parse_pylock
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


def read_pylock(text: str) -> tuple[Found, ...]:
    """Read the packages of a pylock.toml that uv wrote (PEP 751). Raises InternalError if it isn't one."""
    try:
        data = read_toml(text)
        plain = _plain(data)
        packages = parse_pylock(data).packages if plain is None else ()
    except ValueError as error:
        raise InternalError(f"uv's answer isn't valid by PEP 751: {error}") from None
    return tuple(map(_read_package, packages)) if plain is None else plain


_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"(?:{_NUMBER}!)?{_NUMBER}(?:\.{_NUMBER})*(?:(?:a|b|rc){_NUMBER})?(?:\.post{_NUMBER})?(?:\.dev{_NUMBER})?"
    r"(?:\+[a-z][a-z0-9]*)?"
)
"""A version in the form that `str(Version)` gives."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _plain(data: Mapping[str, Any]) -> tuple[Found, ...] | None:
    """Read packages that are files of indexes, as almost all of any answer are. None where anything else is among them.

    It isn't for speed: uv takes wheels whose names `packaging` refuses (`a__b-1.0-py3-none-any.whl`)."""
    try:
        return tuple(map(_of_index, data["packages"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _of_index(package: Mapping[str, Any]) -> Found:
    if package.keys() - {"name", "version", "marker", "index", "wheels", "sdist"} or not _NAME.fullmatch(
        package["name"]
    ):
        raise ValueError
    files = package["wheels"] if "wheels" in package else [package["sdist"]]
    if not files or not _VERSION.fullmatch(package["version"]):
        raise ValueError
    return Found(package["name"], package["version"], files=tuple(map(_plain_file, files)))


def _plain_file(file: Mapping[str, Any]) -> FoundFile:
    url, hashes, size = file["url"], file["hashes"], file.get("size")
    name, sha256 = file.get("name") or url.rpartition("/")[2], hashes.get("sha256")
    if file.keys() - {"url", "name", "hashes", "size", "upload-time"} or not _SHA256.fullmatch(sha256 or "0" * 64):
        raise ValueError
    if "?" in url or not _FILE.fullmatch(name) or not (size is None or type(size) is int):
        raise ValueError
    uploaded = file.get("upload-time")
    return FoundFile(url, name.replace("%2B", "+"), sha256, size, uploaded=uploaded and uploaded.isoformat())


_FILE = re.compile(r"(?:[A-Za-z0-9._+!-]|%2B)+")
"""A file's name in a URL that needs no more than this to be read."""


def _read_package(package: Package) -> Found:
    name, version = package.name, None if package.version is None else str(package.version)
    if package.directory:
        raise InternalError(f"{name} resolved to a local folder, which a lock can't pin")
    if package.vcs:
        git = (package.vcs.url or "", package.vcs.commit_id, package.vcs.subdirectory)
        return Found(name, version, git=git, revision=package.vcs.requested_revision)
    if package.archive:
        return Found(name, version, archive=_file(package.archive))
    files = package.wheels or (package.sdist,)
    return Found(name, version, files=tuple(_file(file) for file in files if file))


def last_error(stderr: str) -> str:
    """Give uv's own error: the last that begins at the margin. What stands before it may quote others."""
    return stderr[stderr.rfind("\nerror: ") + 1 :]


def _file(file: File) -> FoundFile:
    url, uploaded = file.url or file.path or "", file.upload_time.isoformat() if file.upload_time else None
    return FoundFile(url, file_name(file), file.hashes.get("sha256"), file.size, uploaded=uploaded)
