"""Builds of CPython from where their publisher, or the user's mirror, has them: by hash, kept with the other files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from envspec.base.settings import Settings
from envspec.export.python_build import RELEASES
from envspec.install.python_builds import MIRROR, MIRROR_VARIABLE
from envspec.lock.model import LockedPython
from envspec.net.connections import index_fetcher
from envspec.net.file_store import ARTIFACTS, FileStore, WantedFile


def build_address(build: LockedPython, settings: Settings, env: Mapping[str, str]) -> str:
    """Give the URL of a build: below the mirror of uv's variable, of `[mirrors] python`, or at its publisher."""
    base = env.get(MIRROR_VARIABLE) or settings.mirrors.get(MIRROR) or RELEASES
    return f"{base.rstrip('/')}/{build.build}/{quote(build.file)}"


def fetched_build(build: LockedPython, settings: Settings, env: Mapping[str, str], *, offline: bool = False) -> Path:
    """Fetch a build, unless it is in the cache. Raises IndexFailure, OSError."""
    fetcher = index_fetcher(settings, {}, env, offline=offline)
    store = FileStore(settings.cache() / ARTIFACTS, fetcher)
    wanted = WantedFile(build.file, build.sha256, build.size)
    return store.verified(wanted) or store.fetch(build_address(build, settings, env), wanted)
