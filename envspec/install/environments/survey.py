"""The environments that lie in their folder, and taking them away. What runs in one keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from envspec.base.cache import Entry, remove, size_and_use
from envspec.base.errors import NotPlain
from envspec.base.open_folder import OpenFolder
from envspec.install.environments.in_use import keep_free
from envspec.install.prefix import STATE_PATH

KIND = "environments"


def environments_in(folder: OpenFolder) -> tuple[Entry, ...]:
    """List the environments in their folder. Their size is what goes with them: what they share with a cache, or with
    each other, stays. Other folders, and links, are none of envspec's. Raises OSError."""
    return tuple(_environments(folder))


def _environments(folder: OpenFolder) -> Iterator[Entry]:
    for name in folder.names():
        if not folder.is_folder(name) or not (name.startswith(".going-") or _is_ours(folder, name)):
            continue
        found = size_and_use(folder, name, alone=True)
        if found is not None:
            with keep_free(folder.path / name) as free:
                yield Entry(KIND, (name,), *found, busy=not free)


def _is_ours(folder: OpenFolder, name: str) -> bool:
    try:
        return folder.read_at(f"{name}/{STATE_PATH.as_posix()}") is not None
    except (OSError, NotPlain):
        return False


def remove_environments(folder: OpenFolder, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Take environments away in which no program runs. Gives those that are gone, and why others aren't, a line
    each."""
    gone: list[Entry] = []
    kept: list[str] = []
    for entry in entries:
        place = Path(folder.path) / entry.parts[0]
        with keep_free(place) as free:
            if not free:
                kept.append(f"{place} is in use")
                continue
            done, left = remove(folder, [entry])
            gone += done
            kept += left
    return tuple(gone), tuple(kept)
