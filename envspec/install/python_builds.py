"""Builds of CPython that uv brings to a machine that lacks one: the lock's own, by its hash, or uv's newest.

uv has a table of them with their hashes; for a build of the lock, the lock takes the table's place. Where they are
fetched from is uv's setting (`UV_PYTHON_INSTALL_MIRROR`, or `python-install-mirror` in uv.toml).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from envspec.errors import ToolError
from envspec.lock.model import LockedPython
from envspec.redact import redact
from envspec.shortage import shortage
from envspec.uv.errors import ended_by_a_signal
from envspec.uv.program import Uv

RELEASES = "https://github.com/astral-sh/python-build-standalone/releases/download"
"""Where the builds are published (uv's documentation of `python-install-mirror`); a mirror stands for this address."""
_NOT_ASKED = ("never", "manual")
"""Values of UV_PYTHON_DOWNLOADS with which a user keeps uv from fetching Pythons by itself."""
_SYSTEMS = {"linux": ("linux", "gnu"), "osx": ("darwin", "none"), "win": ("windows", "none")}
_ARCHITECTURES = {"64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def may_fetch(env: Mapping[str, str], uv: Uv) -> bool:
    """Say whether the user lets Pythons be fetched."""
    return not uv.offline and env.get("UV_PYTHON_DOWNLOADS", "").strip().lower() not in _NOT_ASKED


def fetch_python(python: str, build: LockedPython | None, env: Mapping[str, str], uv: Uv) -> None:
    """Have uv fetch a CPython `python` ("3.12") into the folder of its Pythons: the build that a lock names, or uv's
    newest. Raises ToolError."""
    more = {name: value for name, value in env.items() if name.startswith("UV_PYTHON_")}
    more["UV_PYTHON_DOWNLOADS"] = "automatic"
    words = ["python", "install", "--no-bin", build.version if build else python]
    with tempfile.TemporaryDirectory() as folder:
        if build is not None:
            table = Path(folder) / "builds.json"
            table.write_text(json.dumps(_table(build)), encoding="utf-8")
            words += ["--python-downloads-json-url", table.as_uri()]
        # no project's settings count, only the user's
        done = uv.run(words, cwd=Path("/"), more=more)
    if stopped := ended_by_a_signal(done.returncode, done.stderr, "uv") or shortage("uv", done.stderr):
        raise stopped
    if done.returncode:
        told = " ".join(redact(done.stderr).removeprefix("error: ").split())[-400:]
        raise ToolError(
            f"this machine has no CPython {python}, and uv can't fetch one: {told}",
            hint=f"install python{python}; or set UV_PYTHON_INSTALL_MIRROR to a mirror of its builds",
        )


def _table(build: LockedPython) -> dict[str, object]:
    """Make uv's table of builds, with one."""
    system, _, machine = build.platform.partition("-")
    os_name, libc = _SYSTEMS[system]
    family = _ARCHITECTURES[machine]
    major, minor, patch = build.version.split(".")
    row = {
        "name": "cpython",
        "arch": {"family": family, "variant": None},
        "os": os_name,
        "libc": libc,
        "major": int(major),
        "minor": int(minor),
        "patch": int(patch),
        "prerelease": "",
        "url": f"{RELEASES}/{build.build}/{quote(build.file)}",
        "sha256": build.sha256,
        "variant": None,
        "build": build.build,
    }
    return {f"cpython-{build.version}-{os_name}-{family}-{libc}": row}
