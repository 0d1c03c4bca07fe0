"""The releases of a project's page, newest first, kept on disk for questions after a resolution: uv's own cache may
have answered uv, so that no page was read."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.cache import keep_entry, read_entry
from envspec.base.documents import decode, encode
from envspec.packages.archive_entries import SOURCES
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import ReleaseFile, choose_file

_SCHEMA = 6
Machine = tuple[str, str, str | None]
"""A target's platform, Python and glibc."""
_HOUR = len("2026-11-24T10")
"""Of a time, what says its hour: the files of a release come within that, and else one by one."""
Row = dict[str, Any]
"""A file of a page (PEP 691)."""


class Release(Struct, frozen=True, array_like=True):
    """wheels           file names of its wheels, of which some are yanked only where all its files are
    source           whether it has a source distribution
    yanked           whether all its files are yanked
    requires_python  of its files, if they have one; `on` gives that of the one which a target takes
    uploaded         the upload time of its first file, RFC 3339; None if the page doesn't say
    unsuited         none of its variants suits the machine that the page was made for
    differing        the files and their Requires-Python, where these differ
    late             the wheels that came in a later hour than its first file, and when
    why_yanked       the reason that the page gives for its yanked files; empty where it gives none
    """

    version: str
    wheels: tuple[str, ...]
    source: bool
    yanked: bool
    requires_python: str | None
    uploaded: str | None
    unsuited: bool = False
    differing: tuple[tuple[str, str], ...] = ()
    late: tuple[tuple[str, str], ...] = ()
    why_yanked: str = ""

    def is_before(self, bound: str | None) -> bool:
        """Return whether the release is older than a bound (RFC 3339), if there is one. A release without a date isn't:
        uv too takes nothing without a date where dates decide."""
        return not bound or "" < (self.uploaded or "")[:19] < bound[:19]

    def before(self, moment: str) -> Release:
        """Give the release as it was before a moment: without the wheels that came later."""
        later = {file for file, uploaded in self.late if uploaded[:19] >= moment[:19]}
        return replace(self, wheels=tuple(wheel for wheel in self.wheels if wheel not in later)) if later else self

    def on(self, target: Machine) -> Release:
        """Give the release as a target sees it: with the Requires-Python of the file that it takes."""
        if not self.differing:
            return self
        file = choose_file(
            (ReleaseFile(name, requires_python=requires_python) for name, requires_python in self.differing), *target
        )
        return self if file is None else replace(self, requires_python=dict(self.differing)[file] or None)


class VersionFiles(NamedTuple):
    """The files of a version on a page: all of them in the page's order, and those that are wheels."""

    rows: list[Row]
    wheels: list[Row]


def by_version(rows: Iterable[Row], project: str) -> dict[Version, VersionFiles]:
    """Group the wheels and sources of a page by version. Leaves out other files and those without a version."""
    groups: dict[Version, VersionFiles] = {}
    # pages have a dozen files of a version, which all write it alike
    written: dict[str | None, VersionFiles | None] = {None: None}
    for row in rows:
        file: str = row["filename"]
        is_wheel = file.endswith(".whl") and file.count("-") >= 4
        text = file.split("-", 2)[1] if is_wheel else source_version(file, project)
        if text not in written:
            version = version_of(str(text))
            written[text] = None if version is None else groups.setdefault(version, VersionFiles([], []))
        own = written[text]
        if own is not None:
            own.rows.append(row)
            if is_wheel:
                own.wheels.append(row)
    return groups


def source_version(file: str, project: str) -> str | None:
    """Read the version in a source distribution's file name; older ones have dashes in name and version."""
    stem = next((file[: -len(suffix)] for suffix in SOURCES if file.endswith(suffix)), None)
    if stem is None:
        return None
    for dash in re.finditer("-", stem):
        if canonical_name(stem[: dash.start()]) == project:
            return stem[dash.end() :]
    return None


def releases_of(files: Mapping[Version, VersionFiles], unsuited: Collection[Version] = ()) -> tuple[Release, ...]:
    """Read the releases of a page from its rows, grouped by version. `unsuited` are those whose variants are no use."""
    return tuple(_release_of(version, files[version], version in unsuited) for version in sorted(files, reverse=True))


def _release_of(version: Version, files: VersionFiles, unsuited: bool) -> Release:
    good = [row for row in files.rows if not row.get("yanked")]
    rows = good or files.rows
    wheels = [row for row in files.wheels if not good or not row.get("yanked")]
    pythons = [row.get("requires-python") or "" for row in rows]
    differing = tuple((row["filename"], python) for row, python in zip(rows, pythons, strict=True))
    uploads = [str(uploaded) for row in rows if (uploaded := row.get("upload-time"))]
    first = min(uploads, default=None)
    late = [(row["filename"], str(row.get("upload-time"))) for row in wheels if first and row.get("upload-time")]
    return Release(
        str(version),
        tuple([row["filename"] for row in wheels]),
        len(wheels) < len(rows),
        not good,
        next(filter(None, pythons), None),
        first,
        unsuited,
        differing if len(set(pythons)) > 1 else (),
        tuple(pair for pair in late if pair[1][:_HOUR] != first[:_HOUR]) if first else (),
        next((reason for row in files.rows if isinstance(reason := row.get("yanked"), str)), ""),
    )


class ReleaseStore:
    """Releases on disk, one file a page, below a checksum. A damaged file counts as absent; a folder that isn't
    writable is no error."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"releases-v{_SCHEMA}"
        self._read: dict[tuple[str, str], dict[tuple[Machine | None, str | None], tuple[Release, ...]]] = {}

    def get(
        self, root: str, project: str, target: Machine | None = None, before: str | None = None
    ) -> tuple[Release, ...] | None:
        """Read a page's releases, as a `target` sees them, and as they were `before` a moment. Each view is made once.
        None for a page that isn't stored."""
        page = (root, project)
        if page not in self._read and (releases := _load(self._path(root, project))) is not None:
            self._read[page] = {(None, None): releases}
        views = self._read.get(page)
        if views is not None and (target, before) not in views:
            of_then = (release.before(before) if before else release for release in views[None, None])
            views[target, before] = tuple(of_then if target is None else (release.on(target) for release in of_then))
        return None if views is None else views[target, before]

    def put(self, root: str, project: str, releases: Iterable[Release]) -> None:
        """Keep a page's releases."""
        content = encode(tuple(releases))
        self._read.pop((root, project), None)
        keep_entry(self._path(root, project), b"%s\n%s" % (_checksum(content), content))

    def _path(self, root: str, project: str) -> Path:
        return self._folder / root / f"{project}.json"


def _load(path: Path) -> tuple[Release, ...] | None:
    try:
        check, _, content = read_entry(path).partition(b"\n")
        return decode(content, tuple[Release, ...]) if check == _checksum(content) else None
    except (OSError, ValueError):
        return None


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)


@lru_cache(maxsize=1 << 16)
def version_of(text: str) -> Version | None:
    """Parse a PEP 440 version, None for any other text. Cached, as pages repeat a version for every file."""
    try:
        return Version(text)
    except ValueError:
        return None


def is_older(version: str, than: str | None) -> bool:
    """Return whether a version is older than another one; false without another one."""
    own, other = version_of(version), version_of(than or "")
    return own is not None and other is not None and own < other
