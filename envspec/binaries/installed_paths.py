"""The installed paths of a wheel's files, and each one's content by the wheel's own RECORD."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel, UnreadableWheel, open_wheel

_PREFIX = "../../.."
"""The prefix, from `lib/pythonX.Y/site-packages`."""
_SCHEMES = {"purelib": "", "platlib": "", "data": f"{_PREFIX}/", "scripts": f"{_PREFIX}/bin/"}
_COMMAND = re.compile(r"[ \t]*([^=#;\[\s][^=\n]*?)[ \t]*=[ \t]*(\S[^\n]*)")
_SECTIONS = ("console_scripts", "gui_scripts")
_PACKED, _UNPACKED = 8 << 20, 64 << 20
"""Bytes of a RECORD that are read at most, packed and unpacked."""


def installed_path(member: str) -> str | None:
    """Give the place of a wheel's member from site-packages; None where no other wheel has its place (headers)."""
    top, _, below = member.partition("/")
    if not top.endswith(".data"):
        return member
    scheme, _, rest = below.partition("/")
    return f"{_SCHEMES[scheme]}{rest}" if scheme in _SCHEMES else None


def installed_paths(wheel: OpenWheel) -> Mapping[str, str]:
    """Give what a wheel installs: paths from site-packages, each with what tells its content from another's: the hash
    that RECORD has, or what a command runs. Its own .dist-info is left out: no other wheel has that.

    Raises UnreadableWheel.
    """
    budget = Budget(_PACKED, _UNPACKED)
    try:
        texts = {
            info.filename.partition("/")[2]: wheel.read(info, budget).decode("utf-8", "surrogateescape")
            for info in wheel.find(r"[^/]+\.dist-info/(?:RECORD|entry_points\.txt)")
        }
    except BudgetSpent:
        return {}
    hashes: dict[str, str] = {}
    with suppress(csv.Error):
        hashes = {row[0]: row[1] for row in csv.reader(texts.get("RECORD", "").splitlines()) if len(row) == 3}
    found: dict[str, str] = {}
    for info in wheel.members:
        top = info.filename.partition("/")[0]
        place = installed_path(info.filename) if top.endswith(".data") else info.filename
        if place and not top.endswith(".dist-info"):
            found[place] = hashes.get(info.filename) or f"crc32={info.CRC:08x} {info.file_size}"
    section = ""
    for line in texts.get("entry_points.txt", "").splitlines():
        if line.startswith("["):
            section = line.strip("[] \t")
        elif section in _SECTIONS and (command := _COMMAND.match(line)):
            found[f"{_PREFIX}/bin/{command[1]}"] = f"runs {''.join(command[2].partition('[')[0].split())}"
    return found


def untrue_rows(path: Path) -> frozenset[str]:
    """Give the places, from site-packages, of the files of a wheel on disk whose size its own RECORD says wrongly."""
    try:
        with path.open("rb") as file, open_wheel(file) as wheel:
            sizes = {info.filename: str(info.file_size) for info in wheel.members}
            (record,) = wheel.find(r"[^/]+\.dist-info/RECORD")
            text = wheel.read(record, Budget(_PACKED, _UNPACKED)).decode("utf-8", "surrogateescape")
            rows = [row for row in csv.reader(text.splitlines()) if len(row) == 3 and row[2]]
    except (UnreadableWheel, BudgetSpent, ValueError, csv.Error):
        return frozenset()
    wrong = (name for name, _, size in rows if sizes.get(name, size) != size)
    return frozenset(place for name in wrong if (place := installed_path(name)))


def paths_of_wheel(path: Path) -> Mapping[str, str]:
    """Give `installed_paths` of a wheel on disk; none for one that can't be read, which its installer says."""
    try:
        with path.open("rb") as file, open_wheel(file) as wheel:
            return installed_paths(wheel)
    except UnreadableWheel:
        return {}
