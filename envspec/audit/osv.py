"""Advisories in the OSV format (https://ossf.github.io/osv-schema/): a downloaded database, asked without a network.

OSV publishes all advisories about PyPI as one zip with a JSON file each; a folder of such files is as good.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from envspec.audit.model import Advisory, Answer, Release
from envspec.audit.pypi import first_line
from envspec.errors import InputError, Place
from envspec.requirement import canonical_name

_DOWNLOAD = "download OSV's `all.zip` of the ecosystem PyPI anew"


class OsvDatabase:
    """All advisories of a file. `modified` is when the newest of them was last changed: how new the database is."""

    def __init__(self, records: Iterable[Mapping[str, Any]], name: str) -> None:
        self._records: dict[str, list[Mapping[str, Any]]] = {}
        self.name = name
        self.modified = ""
        for record in records:
            self.modified = max(self.modified, str(record.get("modified", "")))
            for package in {canonical_name(str(one["package"]["name"])) for one in _about_pypi(record)}:
                self._records.setdefault(package, []).append(record)

    @staticmethod
    def read(path: Path) -> OsvDatabase:
        """The database in a zip, a folder, or one JSON file. Raises InputError."""
        place = Place(str(path))
        try:
            records = list(_records(path))
        except OSError as error:
            raise InputError(f"the database can't be read: {error.strerror or error}", place=place) from None
        except (ValueError, KeyError, zipfile.BadZipFile, RecursionError):
            raise InputError("this is no database in the OSV format", place=place, hint=_DOWNLOAD) from None
        try:
            database = OsvDatabase(records, path.name)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError("an entry isn't in the OSV format", place=place, hint=_DOWNLOAD) from None
        if not database._records:
            raise InputError("the database knows nothing of PyPI's packages", place=place, hint=_DOWNLOAD)
        return database

    def ask(self, release: Release) -> Answer:
        """What is known of a release; a database of all advisories has an answer for everything."""
        found = [
            advisory
            for record in self._records.get(release.name, ())
            if (advisory := _advisory(record, release)) is not None
        ]
        return Answer(self.modified, tuple(sorted(found, key=lambda advisory: advisory.id)))


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield _record(file.read_bytes())
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield _record(archive.read(name))
    else:
        yield _record(path.read_bytes())


def _record(content: bytes) -> Mapping[str, Any]:
    record = json.loads(content)
    if not isinstance(record, dict) or "id" not in record or "modified" not in record:
        raise ValueError
    return record


def _about_pypi(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if record.get("withdrawn"):
        return []
    return [one for one in record.get("affected", ()) if one.get("package", {}).get("ecosystem") == "PyPI"]


def _advisory(record: Mapping[str, Any], release: Release) -> Advisory | None:
    from packaging.version import Version

    version = Version(release.version)
    ours = [one for one in _about_pypi(record) if canonical_name(str(one["package"]["name"])) == release.name]
    if not any(_is_affected(one, version) for one in ours):
        return None
    fixed = {event["fixed"] for one in ours for events in _ranges(one) for event in events if "fixed" in event}
    severity = record.get("database_specific", {}).get("severity")
    return Advisory(
        id=str(record["id"]),
        aliases=tuple(sorted(map(str, record.get("aliases") or ()))),
        summary=first_line(str(record.get("summary") or record.get("details") or "")),
        fixed_in=tuple(str(v) for v in sorted(_versions(fixed)) if v > version),
        link=next((str(one["url"]) for one in record.get("references") or () if one.get("type") == "ADVISORY"), None),
        severity=str(severity).lower() if severity else None,
    )


def _is_affected(affected: Mapping[str, Any], version: Any) -> bool:
    """Whether the entry's versions or one of its ranges has a version, by the schema's own evaluation."""
    return version in _versions(affected.get("versions") or ()) or any(
        _is_within(events, version) for events in _ranges(affected)
    )


def _ranges(affected: Mapping[str, Any]) -> list[list[Mapping[str, str]]]:
    return [one["events"] for one in affected.get("ranges") or () if one.get("type") == "ECOSYSTEM"]


def _is_within(events: Iterable[Mapping[str, str]], version: Any) -> bool:
    ordered = sorted((at, kind) for event in events for kind, text in event.items() for at in _versions([text]))
    within = False
    for at, kind in ordered:
        if kind == "introduced" and version >= at:
            within = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            within = False
    return within


def _versions(texts: Iterable[str]) -> set[Any]:
    """Those of the texts that are PEP 440's: OSV lists some that never could be installed."""
    from packaging.version import InvalidVersion, Version

    found = set()
    for text in texts:
        try:
            # "0" is the schema's word for before everything
            found.add(Version("0.dev0" if text == "0" else text))
        except InvalidVersion:
            continue
    return found
