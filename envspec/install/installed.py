"""The packages in a prefix, read from installers' records: dist-info folders (PEP 376) and conda-meta.

A record counts only if the files that it lists exist.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.documents import read_json
from envspec.base.plain_files import open_plain, read_plain
from envspec.base.redact import without_credentials
from envspec.install.inside import cannot_exist
from envspec.install.model import Fault
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import Pin
from envspec.packages.requirement import canonical_name

CONDA_META = "conda-meta"
OVERWRITTEN: Fault = "has another package's content"
_SIZE = re.compile(r"[0-9]{1,18}")


class Dist(Struct, frozen=True):
    """A pip package: the version in its dist-info folder, that folder, and the package's fault."""

    name: str
    version: str
    folder: Path
    fault: Fault = ""


class CondaPackage(Struct, frozen=True):
    """A conda package by its record in conda-meta."""

    name: str
    version: str
    build: str
    sha256: str | None
    record: Path
    fault: Fault = ""


class CondaRecord(Struct, frozen=True):
    """The part of a record in conda-meta that installers use.

    files          the package's files, relative to the prefix; unchecked: check before removing
    paths          `files`, and what rattler removes with the package
    sizes          of files that are as the package has them
    site_packages  the folder of Python's packages, if the record names it
    """

    file: Path
    name: str
    version: str
    build: str
    sha256: str | None
    files: tuple[str, ...]
    paths: tuple[str, ...]
    sizes: Mapping[str, int | None]
    site_packages: tuple[str, ...] = ()


class InstalledPackages(Struct, frozen=True):
    """records: those of conda-meta that can be read
    debris:  dist-info folders and records that an interrupted installer left, which no installer can read
    shared:  paths that several pip packages have, and the dist-info folders of those whose RECORD has a hash of it"""

    conda: Mapping[str, CondaPackage]
    pip: Mapping[str, Dist]
    debris: tuple[Path, ...] = ()
    records: tuple[CondaRecord, ...] = ()
    shared: Mapping[str, Collection[Path]] = field(default_factory=dict)


def site_packages(prefix: Path, python: str) -> Path:
    """Give the folder of the packages of Python `python` ("3.12") in a prefix."""
    return prefix / "lib" / f"python{python}" / "site-packages"


def read_packages(
    prefix: Path, python: str, written_over: Collection[str] = (), order: Sequence[str] = ()
) -> InstalledPackages:
    """List the packages that are installed in a prefix for Python `python` ("3.12").

    A package in another Python's folder counts as damaged: this Python doesn't see it. envspec writes the paths
    `written_over` (relative to the prefix) itself, so their content proves nothing. `order` names pip packages in the
    order of installation: of a path that several have, the last one's content is right, and pip's rather than conda's.
    Raises OSError.
    """
    records, debris = _read_records(prefix)
    owned = {file for record in records for file in record.files}
    dists: dict[str, Dist] = {}
    rows: dict[Path, list[_Row] | None] = {}
    ours = site_packages(prefix, python)
    # this Python's folder last, so that it wins
    folders = sorted((prefix / "lib").glob("python*/site-packages"), key=lambda folder: folder == ours)
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            if os.path.relpath(info / "METADATA", prefix) in owned:
                continue
            name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            if not name or not (info / "RECORD").is_file() or not (info / "METADATA").is_file():
                debris.append(info)
                continue
            dist = Dist(
                canonical_name(name),
                version,
                info,
                "" if folder == ours else f"its folder is {folder.relative_to(prefix)}",
            )
            rows[info] = _rows(info)
            twice = dists.get(dist.name)
            if twice is not None and twice.folder.parent == folder:
                # of two versions side by side nobody knows which one's files are there
                dist = Dist(dist.name, dist.version, dist.folder, f"version {twice.version} is installed too")
            dists[dist.name] = dist
    place = {name: number for number, name in enumerate(order)}
    by_rank = sorted(dists.values(), key=lambda dist: place.get(dist.name, -1))
    owners: dict[str, list[_Row]] = {}
    for dist in by_rank:
        for row in rows[dist.folder] or ():
            owners.setdefault(row.path, []).append(row)
    dists = {
        name: dist if dist.fault else replace(dist, fault=_dist_fault(dist.folder, rows[dist.folder], owners))
        for name, dist in dists.items()
    }
    root = f"{prefix}{os.sep}"
    by_pip = {path.removeprefix(root) for path in owners if path.startswith(root)}
    conda = _packages(prefix, records, frozenset({*written_over, *(by_pip & owned)}))
    shared = {
        path: [row.owner for row in sharing if row.content] for path, sharing in owners.items() if len(sharing) > 1
    }
    return InstalledPackages(conda, dists, tuple(debris), tuple(records), shared)


class _Row(NamedTuple):
    """A file that a RECORD lists. `content` is the hash that it has there, empty for none."""

    path: str
    size: int | None
    content: str
    owner: Path


def recorded_files(info: Path) -> list[tuple[Path, int | None]]:
    """Read the files in a dist-info folder's RECORD, with their sizes where it has them.

    The paths are unchecked and may lead anywhere: ask `stays_inside` before removing them. Raises ValueError for a
    RECORD that can't be read.
    """
    return [(Path(row.path), row.size) for row in _read_rows(info)]


def paths_of_others(dist: Dist, installed: InstalledPackages) -> frozenset[str]:
    """Give the paths of a package that other installed pip packages have too, with a hash in their RECORDs. conda's
    records may have none: such a file is removed, and its package linked anew."""
    return frozenset(
        path
        for path, folders in installed.shared.items()
        if dist.folder in folders and any(folder != dist.folder and folder.is_dir() for folder in folders)
    )


def _rows(info: Path) -> list[_Row] | None:
    try:
        return _read_rows(info)
    except ValueError:
        return None


def _open_record(info: Path) -> TextIO:
    file = open_plain(info / "RECORD", links_out=True)
    return io.TextIOWrapper(file, encoding="utf-8", errors="surrogateescape", newline="")


def _read_rows(info: Path) -> list[_Row]:
    site = info.parent
    try:
        with _open_record(info) as file:
            rows = [row for row in csv.reader(file) if row and row[0]]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return [
        _Row(
            os.path.normpath(site / row[0]),
            int(row[2]) if len(row) > 2 and _SIZE.fullmatch(row[2]) else None,
            row[1] if len(row) > 1 else "",
            info,
        )
        for row in rows
    ]


def _dist_fault(info: Path, listed: list[_Row] | None, owners: Mapping[str, Sequence[_Row]]) -> Fault:
    if listed is None:
        return "its RECORD can't be read"
    for row in listed:
        if row.path.endswith(".pyc"):
            continue
        sharing = owners[row.path]
        # RECORD can't know its own size, and compiled files come and go
        size = None if os.path.basename(row.path) == "RECORD" or sharing[-1].owner != info else row.size
        if fault := _file_fault(row.path, size) or (_overwritten(row, sharing) if len(sharing) > 1 else ""):
            return f"{os.path.relpath(row.path, info.parent)} {fault}"
    return ""


def _overwritten(row: _Row, sharing: Sequence[_Row]) -> Fault:
    """Judge a path of several packages: the content is wrong where it is another package's and this one came last."""
    contents = {shared.content for shared in sharing}
    mine = sharing[-1].owner == row.owner and len(contents) > 1 and row.content.startswith("sha256=")
    if not mine or not os.path.isfile(row.path):
        return ""
    digest = hashlib.sha256(read_plain(row.path, links_out=True)).digest()
    encoded = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return "" if row.content == f"sha256={encoded}" else OVERWRITTEN


def _file_fault(path: Path | str, size: int | None) -> Fault:
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    except (OSError, ValueError) as error:
        if not cannot_exist(error):
            raise
        return "can't exist"
    if size is not None and stat.S_ISREG(status.st_mode) and status.st_size != size:
        return f"has {status.st_size} bytes instead of {size}"
    return ""


def _read_records(prefix: Path) -> tuple[list[CondaRecord], list[Path]]:
    """Read the records in conda-meta, and list the files there that aren't records."""
    records: list[CondaRecord] = []
    debris: list[Path] = []
    for path in sorted((prefix / CONDA_META).glob("*.json")):
        try:
            records.append(_record(path, read_json(read_plain(path, links_out=True))))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            debris.append(path)
    return records, debris


def _record(path: Path, content: Any) -> CondaRecord:
    """Read a record. A value of another type raises its own error."""
    files = tuple(_text(value) for value in content["files"])
    entries = [(entry, _text(entry["_path"])) for entry in (content.get("paths_data") or {}).get("paths") or ()]
    sizes = {}
    for entry, file in entries:
        # where the prefix was written into a file, its size isn't the package's any more
        if entry.get("path_type") == "hardlink" and not entry.get("prefix_placeholder") and not entry.get("file_mode"):
            sizes[file] = entry.get("size_in_bytes")
    packages_path = content.get("python_site_packages_path")
    return CondaRecord(
        path,
        _text(content["name"]),
        str(content.get("version")),
        str(content.get("build")),
        content.get("sha256"),
        files,
        tuple(dict.fromkeys([*files, *(file for _, file in entries)])),
        sizes,
        () if packages_path is None else (_text(packages_path),),
    )


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r} isn't a text")
    return value


def _packages(prefix: Path, records: Collection[CondaRecord], written_over: frozenset[str]) -> dict[str, CondaPackage]:
    owners = Counter(file for record in records for file in record.files)
    return {
        record.name: CondaPackage(
            record.name,
            record.version,
            record.build,
            record.sha256,
            record.file,
            _conda_fault(prefix, record, owners, written_over),
        )
        for record in records
    }


def _conda_fault(prefix: Path, record: CondaRecord, owners: Mapping[str, int], written_over: frozenset[str]) -> Fault:
    root = f"{prefix}{os.sep}"
    for file in record.files:
        if file in written_over or file.endswith(".pyc"):
            continue
        # of two packages with the same path, one has won
        if fault := _file_fault(root + file, record.sizes.get(file) if owners[file] == 1 else None):
            return f"{file} {fault}"
    return ""


# The parts of an environment's RECORDs that uv writes otherwise: the lock's URL, and nothing untrue of a file.
#
# uv installs a file of the cache and would record its path (PEP 610, `direct_url.json`); it takes a wheel's RECORD as
# it
# is.


FILE = "direct_url.json"


Row = list[str]


def record_direct_url(pin: Pin, prefix: Path, python: str) -> None:
    """Record the URL that an installed pin came from; nothing for a pin from an index or from git. `python` as in
    `site_packages`. A RECORD that can't be read is left as it is. Raises OSError."""
    if pin.url is not None and (info := _folder(pin, prefix, python)):
        content = direct_url(pin)
        own, digest = f"{info.name}/{FILE}", base64.urlsafe_b64encode(hashlib.sha256(content).digest())
        row = [own, f"sha256={digest.rstrip(b'=').decode()}", str(len(content))]
        _replace(info / FILE, content)
        _rewrite(info, lambda rows: [*(recorded for recorded in rows if recorded[0] != own), row])


def leave_unsaid(pin: Pin, places: Collection[str], prefix: Path, python: str) -> None:
    """Remove the hash and size of files from an installed pin's RECORD: those in its wheel's own RECORD are wrong.
    Otherwise as `record_direct_url`."""
    if info := _folder(pin, prefix, python):
        _rewrite(info, lambda rows: [[row[0], "", ""] if row[0] in places else row for row in rows])


def _folder(pin: Pin, prefix: Path, python: str) -> Path | None:
    for info in site_packages(prefix, python).glob("*.dist-info"):
        if canonical_name(info.name.removesuffix(".dist-info").rpartition("-")[0]) == pin.name:
            return info
    return None


def files_of(pin: Pin, prefix: Path, python: str) -> tuple[str, ...]:
    """List the files of an installed pin below site-packages, by its RECORD. Otherwise as `record_direct_url`."""
    info = _folder(pin, prefix, python)
    try:
        content = read_plain(info / "RECORD", links_out=True) if info else b""
        text = content.decode("utf-8", "surrogateescape")
        return tuple(row[0] for row in csv.reader(text.splitlines()) if row and not row[0].startswith(("..", "/")))
    except csv.Error:
        return ()


def direct_url(pin: Pin) -> bytes:
    """Write the origin of a pin as JSON (PEP 610), without login and token, with the checked hash."""
    address, _, fragment = without_credentials(pin.url or "").partition("#")
    subdirectory = fragment.removeprefix("subdirectory=") if fragment.startswith("subdirectory=") else ""
    sha256 = artifact_of(pin).sha256
    document = {
        "url": address,
        "archive_info": {"hash": f"sha256={sha256}", "hashes": {"sha256": sha256}},
        **({"subdirectory": subdirectory} if subdirectory else {}),
    }
    return json.dumps(document).encode()


def _rewrite(info: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    try:
        with _open_record(info) as file:
            rows = [row for row in csv.reader(file) if row]
    except csv.Error:
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(sorted(change(rows)))
    _replace(info / "RECORD", text.getvalue().encode("utf-8", "surrogateescape"))


def _replace(path: Path, content: bytes) -> None:
    """Write a file anew: uv may have linked the old one out of its cache."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.write_bytes(content)
    os.replace(temporary, path)
