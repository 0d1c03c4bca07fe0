"""The cache and the environments: what is there, what goes, and the bound that is kept after a lock or an
installation."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.app.cache_contents import GRACE, CacheContents, CacheLimit, survey, to_prune
from envspec.app.observer import note, warn
from envspec.base.cache import Entry, remove
from envspec.base.errors import EnvspecError, InputError
from envspec.base.open_folder import OpenFolder, open_folder
from envspec.base.places import ENVIRONMENTS
from envspec.base.storage import storage_error
from envspec.base.texts import byte_size
from envspec.configuration.settings import Settings, load_settings, refuse_shared_cache
from envspec.install.environments.in_use import KIND as ENVIRONMENT, environments_in, remove_environments

_T = TypeVar("_T")


class Removed(Struct, frozen=True):
    """The removed entries' number and bytes, and the reasons why the rest stays."""

    entries: int
    size: int
    reasons: tuple[str, ...] = field(name="kept")


class CacheView(Struct, frozen=True):
    """The contents of the cache and of the environments' folder, and the removed entries."""

    settings: Settings
    contents: CacheContents
    removed: Removed | None = None


def look_at_cache() -> CacheView:
    """Find everything in the cache, and the environments. Raises InputError, StorageError."""
    settings = load_settings()
    contents, runs = _look(settings), _read(settings.environments, ENVIRONMENTS, environments_in)
    return CacheView(settings, replace(contents, entries=(*contents.entries, *(runs or ()))))


def count_inodes(folder: Path) -> int:
    """Count a folder's inodes without following links, as the quotas of clusters' homes do. 0 without a folder."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


def _look(settings: Settings) -> CacheContents:
    """Find what is in the cache. Raises InputError for one that others may write to, StorageError."""
    refuse_shared_cache(settings.cache_dir)
    return _read(settings.cache_dir, "ENVSPEC_CACHE_DIR", survey) or CacheContents()


def _read(place: Path, option: str, read: Callable[[OpenFolder], _T]) -> _T | None:
    try:
        with open_folder(place) as folder:
            return read(folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, place, option=option, doing="can't be read") from None


def prune_cache(age: float | None, most: int | None) -> CacheView:
    """Remove entries that weren't used for an age in seconds, then the oldest until so many bytes are left. Without
    either, `[cache] max-size` bounds the cache. Environments go by age alone. Raises InputError, StorageError."""
    view = look_at_cache()
    if age is None and most is None:
        most = view.settings.cache_size
        if most is None:
            raise InputError(
                "`envspec cache prune` isn't told what may go",
                hint='envspec cache prune --older-than 30d; or set [cache] max-size = "20 GB" in envspec\'s'
                " configuration",
            )
    now, entries = time.time(), view.contents.entries
    of_cache = [entry for entry in entries if entry.kind != ENVIRONMENT]
    environments = [entry for entry in entries if entry.kind == ENVIRONMENT and not entry.busy]
    return _without(
        view, (*to_prune(of_cache, CacheLimit(age, most), now), *to_prune(environments, CacheLimit(age), now))
    )


def clean_cache(kinds: Sequence[str]) -> CacheView:
    """Remove the entries of some kinds; without kinds, all but environments. Entries in use stay. Raises InputError,
    StorageError."""
    view = look_at_cache()
    free = [entry for entry in view.contents.entries if not entry.busy]
    return _without(view, [entry for entry in free if (entry.kind in kinds if kinds else entry.kind != ENVIRONMENT)])


def _without(view: CacheView, entries: Iterable[Entry]) -> CacheView:
    gone, reasons = _remove(view.settings, entries)
    for line in reasons:
        warn(line)
    left = tuple(entry for entry in view.contents.entries if entry not in gone)
    removed = Removed(len(gone), sum(entry.size for entry in gone), reasons)
    return replace(view, contents=replace(view.contents, entries=left), removed=removed)


def _remove(settings: Settings, entries: Iterable[Entry]) -> tuple[set[Entry], tuple[str, ...]]:
    """Remove entries of the cache and environments. Return the removed entries, and the reasons why the rest stays."""
    of_cache: list[Entry] = []
    of_runs: list[Entry] = []
    for entry in entries:
        (of_runs if entry.kind == ENVIRONMENT else of_cache).append(entry)
    ways = ((settings.cache_dir, remove, of_cache), (settings.environments, remove_environments, of_runs))
    gone: set[Entry] = set()
    reasons: tuple[str, ...] = ()
    for place, take, those in ways:
        with suppress(FileNotFoundError), open_folder(place) as folder:
            done, left = take(folder, those)
            gone.update(done)
            reasons += left
    return gone, reasons


def prune_to_limit() -> None:
    """Make room by `[cache] max-size`, where the user set it, after a command that may have put something there. A
    failure is a warning: the command has done its work."""
    try:
        settings = load_settings()
        if settings.cache_size is None:
            return
        contents = _look(settings)
        if contents.size <= settings.cache_size:
            return
        bound = CacheLimit(most=settings.cache_size, grace=GRACE)
        gone, reasons = _remove(settings, to_prune(contents.entries, bound, time.time()))
    except EnvspecError as error:
        warn(f"the cache isn't kept within [cache] max-size: {error}")
        return
    if gone:
        freed = byte_size(sum(entry.size for entry in gone))
        note(f"{freed} removed from the cache, which [cache] max-size bounds")
    for line in reasons[:1]:
        warn(line)
