"""The table `data/python_builds.toml`, from uv's own table of the builds that it downloads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import tomli

from envspec.base.errors import InputError
from envspec.facts.python_builds import TRIPLES, builds_of

REPOSITORY = "astral-sh/uv"
DOCUMENT = "crates/uv-python/download-metadata.json"
_HEADER = """\
# Builds of CPython that stand alone (python-build-standalone's), for environments and images where conda brings no
# Python. `python -m tools.refresh pythons` made it from {document} of
# {repository}, and keeps what it had before: locks name those. On Linux they run with glibc 2.17 or newer.
#
# version, build  of CPython, and the release of the builds that has it: its day
# the platforms   sha256 of the file cpython-<version>+<build>-<triple>-install_only_stripped.tar.gz
schema = 1
proof.report = "*"
as-of = "{date}"
sources.uv = "{repository}@{revision} {document}: releases of CPython without variants"

builds = [
"""
_KEPT = re.compile(r"cpython-(3\.\d+\.\d+)\+(20\d{6})-(.+)-install_only_stripped\.tar\.gz")
_OLDEST = (3, 9)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_Hashes = dict[tuple[str, str], dict[str, str]]
"""The hashes of a version and build, by platform."""


def table_from(document: Any, revision: str, date: str, before: str) -> str:
    """Make the table's text from uv's table, as it was on a day ("2026-08-21"), and from the table `before`, whose rows
    stay. Raises InputError for a document that isn't one, and for one that has another hash than before."""
    if not re.fullmatch(r"20\d\d-\d\d-\d\d", date):
        raise InputError(f"--date: `{date}` isn't a day", hint="write it like 2026-08-21")
    known: _Hashes = {}
    for previous in builds_of(tomli.loads(before)["builds"]):
        known.setdefault((previous.version, previous.build), {})[previous.platform] = previous.sha256
    builds = list(_builds(document))
    if not builds:
        raise InputError("this isn't uv's table of Pythons: it has no builds of CPython")
    for version, build, platform, sha256 in builds:
        was = known.setdefault((version, build), {}).setdefault(platform, sha256)
        if was != sha256:
            raise InputError(
                f"CPython {version} of {build} for {platform} has another hash than before",
                hint="find out why before anything is written: what is published under a name doesn't change",
            )
    head = _HEADER.format(repository=REPOSITORY, document=DOCUMENT, revision=revision, date=date)
    return head + "".join(_row(key, known[key]) for key in sorted(known, key=_order)) + "]\n"


def _order(key: tuple[str, str]) -> tuple[list[int], str]:
    version, build = key
    return [int(part) for part in version.split(".")], build


def _row(key: tuple[str, str], hashes: Mapping[str, str]) -> str:
    cells = [f'version = "{key[0]}"', f'build = "{key[1]}"']
    cells += [f'{platform} = "{hashes[platform]}"' for platform in TRIPLES if platform in hashes]
    return f'  {{ {", ".join(cells)}, source = "uv" }},\n'


def _builds(document: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield the builds that the table is to have: version, build, platform, hash."""
    platforms = {triple: platform for platform, triple in TRIPLES.items()}
    rows = document.values() if isinstance(document, Mapping) else ()
    for row in rows:
        if not isinstance(row, Mapping) or row.get("variant") is not None or row.get("prerelease"):
            continue
        named = _KEPT.fullmatch(unquote(str(row.get("url")).rpartition("/")[2]))
        if named is None or named[3] not in platforms or not _SHA256.fullmatch(str(row.get("sha256"))):
            continue
        if tuple(int(part) for part in named[1].split(".")[:2]) >= _OLDEST:
            yield named[1], named[2], platforms[named[3]], str(row["sha256"])
