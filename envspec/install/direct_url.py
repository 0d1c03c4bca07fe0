"""The parts of an environment's RECORDs that uv writes otherwise: the lock's URL, and nothing untrue of a file.

uv installs a file of the cache and would record its path (PEP 610, `direct_url.json`); it takes a wheel's RECORD as it
is.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Collection
from pathlib import Path

from envspec.base.redact import without_credentials
from envspec.install.installed import site_packages
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import Pin
from envspec.packages.requirement import canonical_name

FILE = "direct_url.json"


Row = list[str]


def record_direct_url(pin: Pin, prefix: Path, python: str) -> None:
    """Write down where an installed pin came from; nothing for one of an index or from git. `python` as in
    `site_packages`. A RECORD that can't be read is left as it is. Raises OSError."""
    if pin.url is not None and (info := _folder(pin, prefix, python)):
        content = direct_url(pin)
        own, digest = f"{info.name}/{FILE}", base64.urlsafe_b64encode(hashlib.sha256(content).digest())
        row = [own, f"sha256={digest.rstrip(b'=').decode()}", str(len(content))]
        _replace(info / FILE, content)
        _rewrite(info, lambda rows: [*(one for one in rows if one[0] != own), row])


def leave_unsaid(pin: Pin, places: Collection[str], prefix: Path, python: str) -> None:
    """Take hash and size of files out of an installed pin's RECORD: its wheel's own says them wrongly. Otherwise as
    `record_direct_url`."""
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
        text = (info / "RECORD").read_text(encoding="utf-8", errors="surrogateescape") if info else ""
        return tuple(row[0] for row in csv.reader(text.splitlines()) if row and not row[0].startswith(("..", "/")))
    except csv.Error:
        return ()


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


def _rewrite(info: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    try:
        with (info / "RECORD").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except csv.Error:
        return
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(sorted(change(rows)))
    _replace(info / "RECORD", text.getvalue().encode("utf-8", "surrogateescape"))


def _replace(path: Path, content: bytes) -> None:
    """Write a file anew: uv may have linked the old one out of its cache."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(content)
    os.replace(beside, path)
