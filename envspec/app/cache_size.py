"""The cache as commands look at it, and the bound that it keeps after a lock or an installation."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from envspec.app.observer import say, warn
from envspec.base.errors import EnvspecError
from envspec.base.places import ENVIRONMENTS
from envspec.base.settings import Settings, load_settings, refuse_shared

if TYPE_CHECKING:
    from envspec.base.cache.model import CacheContents, Entry


def looked_at(settings: Settings) -> CacheContents:
    """What is in the cache; nothing where there is none. Raises InputError for one that others may write to,
    StorageError."""
    from envspec.base.cache.model import CacheContents
    from envspec.base.cache.survey import survey
    from envspec.base.open_folder import open_folder
    from envspec.base.storage import storage_error

    refuse_shared(settings.cache_dir)
    try:
        with open_folder(settings.cache_dir) as folder:
            return survey(folder)
    except FileNotFoundError:
        return CacheContents()
    except OSError as error:
        raise storage_error(error, settings.cache_dir, option="ENVSPEC_CACHE_DIR", doing="can't be read") from None


def environments_at(settings: Settings) -> tuple[Entry, ...]:
    """The environments that have no prefix of their own. Raises StorageError."""
    from envspec.base.open_folder import open_folder
    from envspec.base.storage import storage_error
    from envspec.install.environments.survey import environments_in

    try:
        with open_folder(settings.environments) as folder:
            return environments_in(folder)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise storage_error(error, settings.environments, option=ENVIRONMENTS, doing="can't be read") from None


def removed(settings: Settings, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Take entries of the cache and environments away: those that are gone, and why others aren't."""
    from envspec.base.cache.remove import remove
    from envspec.base.open_folder import open_folder
    from envspec.install.environments.survey import KIND, remove_environments

    every = tuple(entries)
    gone: tuple[Entry, ...] = ()
    kept: tuple[str, ...] = ()
    of_cache = tuple(entry for entry in every if entry.kind != KIND)
    of_runs = tuple(entry for entry in every if entry.kind == KIND)
    ways = ((settings.cache_dir, remove, of_cache), (settings.environments, remove_environments, of_runs))
    for place, take, those in ways:
        with suppress(FileNotFoundError), open_folder(place) as folder:
            done, left = take(folder, those)
            gone, kept = gone + done, kept + left
    return gone, kept


def keep_bounded() -> None:
    """Make room by `[cache] max-size`, where the user set it, after a command that may have put something there. What
    goes wrong is told: the command has done its work."""
    from envspec.base.texts import byte_size

    try:
        settings = load_settings()
        if settings.cache_size is None:
            return
        from envspec.base.cache.model import GRACE, Bound, to_prune

        contents = looked_at(settings)
        if contents.size <= settings.cache_size:
            return
        bound = Bound(most=settings.cache_size, grace=GRACE)
        gone, kept = removed(settings, to_prune(contents.entries, bound, time.time()))
    except EnvspecError as error:
        warn(f"the cache isn't kept within [cache] max-size: {error}")
        return
    if gone:
        freed = byte_size(sum(entry.size for entry in gone))
        say(f"note: {freed} removed from the cache, which [cache] max-size bounds", style="cyan")
    for line in kept[:1]:
        warn(line)
