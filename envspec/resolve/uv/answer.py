"""uv's answer: the packages of the pylock.toml (PEP 751) that it writes, and what its search came to before."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from packaging.pylock import Package

from envspec.base.documents import read_toml
from envspec.base.errors import InternalError
from envspec.base.records import RecordWithNotes
from envspec.packages.pylock import File, file_name, parse_pylock
from envspec.packages.variants import WheelOfVariant


class Found(RecordWithNotes, frozen=True, eq=False):
    """One package of uv's answer. Exactly one of `files` (wheels or one sdist, as index files), `git` and `archive` is
    set."""

    notes: ClassVar = frozenset({"tried"})

    name: str
    version: str | None
    files: tuple[FoundFile, ...] = ()
    git: tuple[str, str, str | None] | None = None
    """URL, full commit, subdirectory."""
    revision: str | None = None
    """What a requirement asks git for: a branch, a tag, a commit; None for the default branch."""
    archive: FoundFile | None = None
    tried: tuple[str, ...] = ()
    """The releases that uv's search came to, this one included, as far as `read_search` was asked."""


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


LOG_OF_SEARCH = "uv_resolver::resolver=debug"
"""The value of RUST_LOG with which uv says on stderr what its search comes to."""
_QUOTING = re.compile(r"^WARN .* has invalid metadata: .*\n(?:.*\n){0,4}?[ \t]*\^+(?:\n|\Z)", re.MULTILINE)
_SELECTED = re.compile(rf"DEBUG Selecting: ([\w.-]+)==({_VERSION.pattern}) ")
_LEFT = re.compile(
    rf"DEBUG Recording dependency conflict of ([\w.-]+)==({_VERSION.pattern}) from incompatibility of \((.+)\)"
)
_NAMED = re.compile(r"(?:^|, )([\w.-]+)")


def split_log(stderr: str) -> tuple[list[str], str]:
    """Take the lines of uv's log out of what it says. What a warning quotes of METADATA goes with it: it stands at the
    margin, and may look like a line of the log, an error or a hint. Of uv's own error, the last, further lines don't.
    """
    lines = _QUOTING.sub("", stderr).split("\n")
    said = "\n".join(line for line in lines if not line.startswith(("DEBUG ", "WARN ")))
    return [line for line in lines if line.startswith("DEBUG ")], said[said.rfind("\nerror: ") + 1 :]


def read_search(log: Iterable[str], bounded: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    """List, of the packages in `bounded`, the releases that uv's search came to, without those that it left at once for
    another package than those that stand there."""
    found: dict[str, dict[str, None]] = {}
    for line in log:
        if (selected := _SELECTED.match(line)) and selected[1] in bounded:
            found.setdefault(selected[1], {})[selected[2]] = None
        elif (left := _LEFT.match(line)) and left[1] in found and not {*_NAMED.findall(left[3])} & {*bounded[left[1]]}:
            found[left[1]].pop(left[2], None)
    return {name: tuple(versions) for name, versions in found.items()}


def _file(file: File) -> FoundFile:
    url, uploaded = file.url or file.path or "", file.upload_time.isoformat() if file.upload_time else None
    return FoundFile(url, file_name(file), file.hashes.get("sha256"), file.size, uploaded=uploaded)
