"""The packages in a prefix, read from installers' records: dist-info folders (PEP 376) and conda-meta.

A record counts only if the files that it lists exist.
"""

from __future__ import annotations

import csv
import os
import re
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from envspec.documents import read_json
from envspec.install.inside import cannot_exist
from envspec.install.model import Fault
from envspec.packages.requirement import canonical_name
from envspec.record import dataclass

CONDA_META = "conda-meta"
_SIZE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Dist:
    """A pip package: the version in its dist-info folder, that folder, and the package's fault."""

    name: str
    version: str
    folder: Path
    fault: Fault = ""


@dataclass(frozen=True)
class CondaPackage:
    """A conda package by its record in conda-meta."""

    name: str
    version: str
    build: str
    sha256: str | None
    record: Path
    fault: Fault = ""


@dataclass(frozen=True)
class CondaRecord:
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


@dataclass(frozen=True)
class InstalledPackages:
    """records: those of conda-meta that can be read
    debris:  dist-info folders and records that an interrupted installer left, which no installer can read"""

    conda: Mapping[str, CondaPackage]
    pip: Mapping[str, Dist]
    debris: tuple[Path, ...] = ()
    records: tuple[CondaRecord, ...] = ()


def site_packages(prefix: Path, python: str) -> Path:
    """Give the folder of the packages of Python `python` ("3.12") in a prefix."""
    return prefix / "lib" / f"python{python}" / "site-packages"


def read_installed(prefix: Path, python: str, written_over: Collection[str] = ()) -> InstalledPackages:
    """List what is installed in a prefix for Python `python` ("3.12").

    A package in another Python's folder counts as damaged: this Python doesn't see it. envspec writes the paths
    `written_over` (relative to the prefix) itself, so their content proves nothing. Raises OSError.
    """
    records, debris = _read_records(prefix)
    conda = _packages(prefix, records, frozenset(written_over))
    owned = {file for record in records for file in record.files}
    dists: dict[str, Dist] = {}
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
            fault = _dist_fault(info) if folder == ours else f"its folder is {folder.relative_to(prefix)}"
            dist = Dist(canonical_name(name), version, info, fault)
            twice = dists.get(dist.name)
            if twice is not None and twice.folder.parent == folder:
                # of two versions side by side nobody knows which one's files are there
                dist = Dist(dist.name, dist.version, dist.folder, f"version {twice.version} is installed too")
            dists[dist.name] = dist
    return InstalledPackages(conda, dists, tuple(debris), tuple(records))


def recorded_files(info: Path) -> list[tuple[Path, int | None]]:
    """Read the files in a dist-info folder's RECORD, with their sizes where it has them.

    The paths are unchecked and may lead anywhere: ask `stays_inside` before removing them. Raises ValueError for a
    RECORD that can't be read.
    """
    site = info.parent
    try:
        with (info / "RECORD").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = [row for row in csv.reader(file) if row and row[0]]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return [
        (Path(os.path.normpath(site / row[0])), int(row[2]) if len(row) > 2 and _SIZE.fullmatch(row[2]) else None)
        for row in rows
    ]


def _dist_fault(info: Path) -> Fault:
    try:
        listed = recorded_files(info)
    except ValueError:
        return "its RECORD can't be read"
    for path, size in listed:
        # RECORD can't know its own size, and compiled files come and go
        if path.suffix != ".pyc" and (fault := _file_fault(path, size if path.name != "RECORD" else None)):
            return f"{os.path.relpath(path, info.parent)} {fault}"
    return ""


def _file_fault(path: Path | str, size: int | None) -> Fault:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "is missing"
    except (OSError, ValueError) as error:
        if not cannot_exist(error):
            raise
        return "can't exist"
    if size is not None and stat.S_ISREG(found.st_mode) and found.st_size != size:
        return f"has {found.st_size} bytes instead of {size}"
    return ""


def _read_records(prefix: Path) -> tuple[list[CondaRecord], list[Path]]:
    """Read the records in conda-meta, and list the files there that aren't records."""
    records: list[CondaRecord] = []
    debris: list[Path] = []
    for path in sorted((prefix / CONDA_META).glob("*.json")):
        try:
            records.append(_record(path, read_json(path.read_bytes())))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            debris.append(path)
    return records, debris


def _record(path: Path, content: Any) -> CondaRecord:
    """Read a record. A value of another type raises its own error."""
    files = _texts(content["files"])
    entries = [(entry, _text(entry["_path"])) for entry in (content.get("paths_data") or {}).get("paths") or ()]
    sizes = {}
    for entry, file in entries:
        # where the prefix was written into a file, its size isn't the package's any more
        if entry.get("path_type") == "hardlink" and not entry.get("prefix_placeholder") and not entry.get("file_mode"):
            sizes[file] = entry.get("size_in_bytes")
    said = content.get("python_site_packages_path")
    return CondaRecord(
        path,
        _text(content["name"]),
        str(content.get("version")),
        str(content.get("build")),
        content.get("sha256"),
        files,
        tuple(dict.fromkeys([*files, *(file for _, file in entries)])),
        sizes,
        () if said is None else (_text(said),),
    )


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


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
