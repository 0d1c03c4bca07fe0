"""What an environment records of a package that came from a URL: the lock's URL, never the file that was installed.

uv installs a file of the cache and would record its path (PEP 610, `direct_url.json`).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from pathlib import Path

from envspec.base.redact import without_credentials
from envspec.install.installed import site_packages
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import Pin
from envspec.packages.requirement import canonical_name

FILE = "direct_url.json"


def record_direct_url(pin: Pin, prefix: Path, python: str) -> None:
    """Write down where an installed pin came from; nothing for one of an index or from git. `python` as in
    `site_packages`. A RECORD that can't be read is left as it is. Raises OSError."""
    if pin.url is None:
        return
    for info in site_packages(prefix, python).glob("*.dist-info"):
        if canonical_name(info.name.removesuffix(".dist-info").rpartition("-")[0]) == pin.name:
            _record(info, direct_url(pin))


def direct_url(pin: Pin) -> bytes:
    """Say where a pin came from, without login and token, with the hash that was checked."""
    address, _, fragment = without_credentials(pin.url or "").partition("#")
    below = fragment.removeprefix("subdirectory=") if fragment.startswith("subdirectory=") else ""
    sha256 = artifact_of(pin).sha256
    told = {
        "url": address,
        "archive_info": {"hash": f"sha256={sha256}", "hashes": {"sha256": sha256}},
        **({"subdirectory": below} if below else {}),
    }
    return json.dumps(told).encode()


def _record(info: Path, content: bytes) -> None:
    """Put the file in place of the one in a dist-info folder, and into its RECORD."""
    own = f"{info.name}/{FILE}"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    _replace(info / FILE, content)
    try:
        with (info / "RECORD").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = [row for row in csv.reader(file) if row and row[0] != own]
    except csv.Error:
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(sorted([*rows, [own, f"sha256={digest}", str(len(content))]]))
    _replace(info / "RECORD", text.getvalue().encode("utf-8", "surrogateescape"))


def _replace(path: Path, content: bytes) -> None:
    """Write a file anew: uv may have linked the old one out of its cache."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    os.replace(beside, path)
