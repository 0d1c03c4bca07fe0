"""The tables as the package `envspec-facts`: a copy of each, and a list of their hashes."""

from __future__ import annotations

import json
import shutil
from datetime import date
from hashlib import sha256
from pathlib import Path

from envspec.base.errors import InputError
from envspec.facts.edition import FORMAT, MANIFEST, Unfit, names, read, shipped_edition
from envspec.facts.reach import counts, reach


def next_version(version: str, today: date) -> str:
    """Give the version after this one: the day, or the next count of it where that day has a version already."""
    day = f"{today.year}.{today.month}.{today.day}"
    if tuple(map(int, version.split("."))) < tuple(map(int, day.split("."))):
        return day
    parts = [int(part) for part in version.split(".")]
    return ".".join(map(str, (*parts[:3], parts[3] + 1 if len(parts) > 3 else 1)))


def manifest(version: str) -> str:
    """Write the manifest of the tables that ship with envspec."""
    return json.dumps({"format": FORMAT, "version": version}) + "\n"


def write(folder: Path) -> str:
    """Copy the shipped tables into an empty or new folder, with the list of their hashes; gives their version.

    Every table is read first, by the readers that envspec has. The same tables give the same bytes. Raises InputError
    for a folder that holds something else.
    """
    own = shipped_edition()
    for name in reach():
        counts(name)
    if folder.exists():
        if any(folder.iterdir()) and not (folder / MANIFEST).is_file():
            raise InputError(f"{folder} holds something else than an edition", hint="name a new folder")
        shutil.rmtree(folder)
    digests = {}
    for name in sorted(names(own.folder)):
        data = (own.folder / name).read_bytes()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        digests[name] = sha256(data).hexdigest()
    listed = {"format": FORMAT, "version": own.version, "files": digests}
    (folder / MANIFEST).write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    try:
        read(folder, own)
    except Unfit as error:
        raise InputError(f"{folder} isn't an edition that envspec takes: {error}") from None
    return own.version
