"""The lock's build of Python, as uv takes it: its table of builds, with one. uv checks what it fetches by the hash."""

from __future__ import annotations

import json
from urllib.parse import quote

from envspec.lock.model import LockedPython

RELEASES = "https://github.com/astral-sh/python-build-standalone/releases/download"
"""The address of the builds, or of a mirror in its place (uv's documentation of `python-install-mirror`)."""
TABLE = "UV_PYTHON_DOWNLOADS_JSON_URL"
"""uv's variable for the address of such a table."""
_SYSTEMS = {"linux": ("linux", "gnu"), "osx": ("darwin", "none"), "win": ("windows", "none")}
_ARCHITECTURES = {"64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def folder_name(build: LockedPython) -> str:
    """Name the folder that uv unpacks a build into."""
    system, libc = _SYSTEMS[build.platform.partition("-")[0]]
    return f"cpython-{build.version}-{system}-{_family(build)}-{libc}"


def uv_table(build: LockedPython) -> str:
    """Render uv's table of builds, with one."""
    system, libc = _SYSTEMS[build.platform.partition("-")[0]]
    major, minor, patch = map(int, build.version.split("."))
    row = {
        "name": "cpython",
        "arch": {"family": _family(build), "variant": None},
        "os": system,
        "libc": libc,
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": f"{RELEASES}/{build.build}/{quote(build.file)}",
        "sha256": build.sha256,
        "variant": None,
        "build": build.build,
    }
    return f'{{\n  "{folder_name(build)}": {json.dumps(row)}\n}}\n'


def _family(build: LockedPython) -> str:
    return _ARCHITECTURES[build.platform.partition("-")[2]]
