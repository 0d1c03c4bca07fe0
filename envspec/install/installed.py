"""What is in a prefix, read from the records that installers leave: dist-info folders (PEP 376) and conda-meta.

A record is only believed where the files it lists are there.
"""

from __future__ import annotations

import csv
import json
import os
import stat
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envspec.install.model import Fault
from envspec.lock.inputs import canonical_name

CONDA_META = "conda-meta"


@dataclass(frozen=True)
class Dist:
    """A pip package: the version its dist-info folder says, that folder, and what is wrong with it."""

    name: str
    version: str
    folder: Path
    fault: Fault = ""


@dataclass(frozen=True)
class CondaPackage:
    """A conda package as its record in conda-meta says."""

    name: str
    version: str
    build: str
    sha256: str | None
    record: Path
    fault: Fault = ""


@dataclass(frozen=True)
class Installed:
    """debris: dist-info folders and records that an interrupted installer left, which no installer can read"""

    conda: Mapping[str, CondaPackage]
    pip: Mapping[str, Dist]
    debris: tuple[Path, ...] = ()


def site_packages(prefix: Path, python: str) -> Path:
    """Where Python `python` ("3.12") of a prefix has its packages."""
    return prefix / "lib" / f"python{python}" / "site-packages"


def read_installed(prefix: Path, python: str, written_over: Collection[str] = ()) -> Installed:
    """What is installed in a prefix for Python `python` ("3.12").

    What lies in another Python's folder counts as damaged: this Python doesn't see it. The paths `written_over`
    (relative to the prefix) are envspec's own to write and prove nothing. Raises OSError.
    """
    conda, owned, debris = _read_conda(prefix, frozenset(written_over))
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
            fault = _dist_fault(info) if folder == ours else f"it is in {folder.relative_to(prefix)}"
            dist = Dist(canonical_name(name), version, info, fault)
            twice = dists.get(dist.name)
            if twice is not None and twice.folder.parent == folder:
                # of two versions side by side nobody knows which one's files are there
                dist = Dist(dist.name, dist.version, dist.folder, f"it is there twice, as {twice.version} too")
            dists[dist.name] = dist
    return Installed(conda, dists, tuple(debris))


def recorded_files(info: Path) -> list[tuple[Path, int | None]]:
    """The files that a dist-info folder's RECORD lists, with their sizes where it says them."""
    site = info.parent
    with (info / "RECORD").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        rows = [row for row in csv.reader(file) if row and row[0]]
    return [
        (Path(os.path.normpath(site / row[0])), int(row[2]) if len(row) > 2 and row[2].isdigit() else None)
        for row in rows
    ]


def _dist_fault(info: Path) -> Fault:
    try:
        listed = recorded_files(info)
    except (csv.Error, ValueError):
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
    if size is not None and stat.S_ISREG(found.st_mode) and found.st_size != size:
        return f"has {found.st_size} bytes instead of {size}"
    return ""


def _read_conda(prefix: Path, written_over: frozenset[str]) -> tuple[dict[str, CondaPackage], set[str], list[Path]]:
    """The conda packages, every file that they own (relative), and records that can't be read."""
    records: dict[Path, dict[str, Any]] = {}
    debris: list[Path] = []
    for path in sorted((prefix / CONDA_META).glob("*.json")):
        try:
            record = json.loads(path.read_bytes())
            records[path] = {**record, "name": str(record["name"]), "files": list(record["files"])}
        except (ValueError, KeyError, TypeError):
            debris.append(path)
    owners = Counter(file for record in records.values() for file in record["files"])
    packages = {}
    for path, record in records.items():
        fault = _conda_fault(prefix, record, owners, written_over)
        packages[record["name"]] = CondaPackage(
            record["name"],
            str(record.get("version")),
            str(record.get("build")),
            record.get("sha256"),
            path,
            fault,
        )
    return packages, set(owners), debris


def _conda_fault(
    prefix: Path, record: Mapping[str, Any], owners: Mapping[str, int], written_over: frozenset[str]
) -> Fault:
    sizes = {}
    for entry in record.get("paths_data", {}).get("paths", ()):
        # where the prefix was written into a file, its size isn't the package's any more
        if entry.get("path_type") == "hardlink" and not entry.get("prefix_placeholder") and not entry.get("file_mode"):
            sizes[entry["_path"]] = entry.get("size_in_bytes")
    root = f"{prefix}{os.sep}"
    for file in record["files"]:
        if file in written_over or file.endswith(".pyc"):
            continue
        # of two packages with the same path, one has won
        if fault := _file_fault(root + file, sizes.get(file) if owners[file] == 1 else None):
            return f"{file} {fault}"
    return ""
