"""Explicit lists (`@EXPLICIT`, CEP 23): the URLs of a platform's conda packages, and conda-lock's `# pip` lines."""

from __future__ import annotations

import re

from envspec.base.redact import without_credentials
from envspec.lock.model import Lock, Pin
from envspec.packages.requirement import canonical_name
from envspec.review.diff.foreign.shape import (
    Malformed,
    artifact,
    channel_name,
    conda_file,
    file_name,
    index_name,
    lock_of,
    subdir,
)

KNOWS = frozenset({"index", "files"})

_PLATFORM = re.compile(r"^# platform: (\S+)", re.MULTILINE)
_PIP = re.compile(r"# pip (?P<name>[A-Za-z0-9._-]+) @ (?P<url>\S+)")


def read(text: str) -> Lock:
    """Return what is installed. The platform is from the list's comment, else from its files. Raises Malformed."""
    pins: list[Pin] = []
    subdirs: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PIP.match(line):
            pins.append(_pip(match["name"], match["url"]))
            continue
        line = line.strip()
        if not line or line.startswith(("#", "@")):
            continue
        url, _, digest = line.partition("#")
        pins.append(_conda(url, digest, number))
        subdirs.add(subdir(url))
    said = _PLATFORM.search(text)
    platform = said[1] if said else next(iter(sorted(subdirs - {"noarch"})), "noarch")
    return lock_of({(platform, platform): pins})


def _conda(url: str, digest: str, number: int) -> Pin:
    file = file_name(url)
    try:
        name, version, build = conda_file(file)
    except ValueError:
        raise Malformed(f"line {number}: {file[:80]!r} isn't a conda package") from None
    hashes = {"sha256": digest.removeprefix("sha256:")} if digest.startswith("sha256:") else {"md5": digest or None}
    return Pin("conda", name.lower(), version, channel_name(url), artifact(url, hashes), build=build)


def _pip(name: str, url: str) -> Pin:
    bare, _, fragment = without_credentials(url).partition("#")
    file = file_name(bare)
    found = re.search(r"sha256=([0-9a-f]{64})", fragment)
    version = re.sub(r"\.(?:tar\.(?:gz|bz2|xz)|zip)$", "", file).rpartition("-")[2]
    if file.endswith(".whl"):
        version = file.partition("-")[2].partition("-")[0]
    return Pin(
        "pip",
        canonical_name(name),
        version or "0",
        index_name(bare),
        artifact(file, {"sha256": found[1] if found else None}),
    )
