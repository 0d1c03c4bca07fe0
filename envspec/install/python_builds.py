"""Builds of CPython that uv brings to a machine: the lock's own, by its hash, or uv's newest where it names none.

uv has a table of them with their hashes; for a build of the lock, the lock takes the table's place. Where they are
fetched from is uv's setting (`UV_PYTHON_INSTALL_MIRROR`, or `python-install-mirror` in uv.toml), or `[mirrors] python`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from envspec.base.errors import ToolError
from envspec.base.redact import redact
from envspec.base.settings import Settings, load_settings
from envspec.export.python_build import RELEASES, TABLE, folder_name, uv_table
from envspec.lock.model import LockedPython
from envspec.net.connections import index_fetcher
from envspec.net.file_store import ARTIFACTS, FileStore, WantedFile
from envspec.resolve.uv.errors import cause, machine_error
from envspec.resolve.uv.program import Uv

MIRROR_VARIABLE = "UV_PYTHON_INSTALL_MIRROR"
MIRROR = "python"
"""The key in `[mirrors]` of envspec's configuration."""
_FOLDER_VARIABLE = "UV_PYTHON_INSTALL_DIR"
_NOT_ASKED = ("never", "manual")
"""Values of UV_PYTHON_DOWNLOADS with which a user keeps uv from fetching Pythons by itself."""


def may_fetch(env: Mapping[str, str], uv: Uv) -> bool:
    """Say whether the user lets Pythons be fetched."""
    return not uv.offline and are_asked_for(env)


def are_asked_for(env: Mapping[str, str]) -> bool:
    """Say whether the user's settings let uv fetch Pythons by itself."""
    return env.get("UV_PYTHON_DOWNLOADS", "").strip().lower() not in _NOT_ASKED


def uvs_folder(env: Mapping[str, str]) -> Path:
    """Give the folder of uv's Pythons."""
    return Path(env.get(_FOLDER_VARIABLE) or _data(env) / "uv" / "python")


def place_of_build(build: LockedPython, env: Mapping[str, str]) -> Path | None:
    """Find the interpreter of a build that is on this machine already, among uv's Pythons or envspec's."""
    for folder in (uvs_folder(env), _own_folder(build, env)):
        root = folder / folder_name(build)
        interpreter = root / "bin" / f"python{build.version.rpartition('.')[0]}"
        if _release_in(root) == build.build and interpreter.is_file():
            return interpreter
    return None


def fetch_python(python: str, build: LockedPython | None, env: Mapping[str, str], uv: Uv) -> None:
    """Have uv fetch a CPython `python` ("3.12"): the build that a lock names, or uv's newest. It goes to uv's Pythons;
    to envspec's, where another release of that very version is in its place. Raises ToolError."""
    more = {name: value for name, value in env.items() if name.startswith("UV_PYTHON_")}
    more["UV_PYTHON_DOWNLOADS"] = "automatic"
    mirror = load_settings(env).mirrors.get(MIRROR)
    if mirror:
        more.setdefault(MIRROR_VARIABLE, mirror)
    words = ["python", "install", "--no-bin", build.version if build else python]
    with tempfile.TemporaryDirectory() as folder:
        if build is not None:
            table = Path(folder) / "builds.json"
            table.write_text(uv_table(build), encoding="utf-8")
            more[TABLE] = table.as_uri()
            if (uvs_folder(env) / folder_name(build)).exists():
                more[_FOLDER_VARIABLE] = str(_own_folder(build, env))
        # no project's settings count, only the user's
        done = uv.run(words, cwd=Path("/"), more=more)
    if stopped := machine_error(done.returncode, done.stderr, "uv"):
        raise stopped
    if done.returncode:
        told = cause(redact(done.stderr))
        if build is None:
            raise ToolError(
                f"this machine has no CPython {python}, and uv can't fetch one: {told}",
                hint=f"install python{python}; or set {MIRROR_VARIABLE} to a mirror of its builds",
            )
        raise ToolError(
            f"uv can't fetch CPython {build.version} of {build.build}, which the lock names: {told}",
            hint=f"set {MIRROR_VARIABLE}, or [mirrors] {MIRROR}, to a mirror of its builds; with"
            f" UV_PYTHON_DOWNLOADS=never, envspec takes this machine's own Python {python}",
        )


def _own_folder(build: LockedPython, env: Mapping[str, str]) -> Path:
    return _data(env) / "envspec" / "python" / build.build


def _data(env: Mapping[str, str]) -> Path:
    home = Path(env.get("HOME", "~")).expanduser()
    return Path(env.get("XDG_DATA_HOME") or home / ".local" / "share")


def _release_in(root: Path) -> str | None:
    """Read what uv notes beside a Python that it unpacked: the release that it is of."""
    try:
        return (root / "BUILD").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None


def build_address(build: LockedPython, settings: Settings, env: Mapping[str, str]) -> str:
    """Give the URL of a build: below the mirror of uv's variable, of `[mirrors] python`, or at its publisher."""
    base = env.get(MIRROR_VARIABLE) or settings.mirrors.get(MIRROR) or RELEASES
    return f"{base.rstrip('/')}/{build.build}/{quote(build.file)}"


def fetch_build(build: LockedPython, settings: Settings, env: Mapping[str, str], *, offline: bool = False) -> Path:
    """Fetch a build, unless it is in the cache. Raises IndexFailure, OSError."""
    fetcher = index_fetcher(settings, {}, env, offline=offline)
    store = FileStore(settings.cache() / ARTIFACTS, fetcher)
    wanted = WantedFile(build.file, build.sha256, build.size)
    return store.find_and_verify(wanted) or store.fetch(build_address(build, settings, env), wanted)
