"""The cache's contents. The survey follows no link, and only names files that envspec didn't write."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from envspec.base.cache.model import CacheContents, Entry
from envspec.base.open_folder import OpenFolder
from envspec.base.scratch import is_running

_FOLDERS: tuple[tuple[str, str, int], ...] = (
    (r"metadata-v[0-9]+", "metadata", 2),
    (r"wheels-v[0-9]+", "wheels", 2),
    (r"linked-v[0-9]+", "linked", 2),
    (r"sources-v[0-9]+", "sources", 2),
    (r"releases-v[0-9]+", "releases", 2),
    (r"urls-v[0-9]+", "urls", 1),
    (r"publishers-v[0-9]+", "publishers", 2),
    (r"releases-flat-v[0-9]+", "releases", 2),
    (r"artifacts", "artifacts", 1),
    (r"built-v[0-9]+", "built", 1),
    (r"(bases|manifests)-v[0-9]+", "bases", 1),
    (r"audit", "audit", 1),
    (r"runs-v[0-9]+", "runs", 1),
    (r"smoke", "smoke", 2),
    (r"uv-private", "uv-private", 0),
    (r"scratch", "scratch", 1),
    (r"conda/repodata(-private)?", "conda-repodata", 2),
    (r"conda/packages", "conda-packages", 1),
    (r"conda/scratch", "scratch", 1),
    (r"\.going-[0-9a-f]{16}", "scratch", 0),
)
"""Folders by the pattern of their path, their kind, and how far below them an entry lies."""

_FILES = re.compile(r"(uv-default-index-[0-9-]+|uv-pytorch-[a-z0-9]+-[0-9-]+|index-proxy)(\.[0-9a-f]{8}\.partial)?")
_ABOVE = ("conda",)
"""What holds such folders and nothing else."""
_MARK = ".lock"
"""Of a conda package's mark, beside its folder; without it, rattler takes the folder for nothing."""


@dataclass(frozen=True)
class _Found:
    size: int
    used: float


def survey(cache: OpenFolder) -> CacheContents:
    """Everything in the cache. Raises OSError. What goes away meanwhile is left out."""
    entries: list[Entry] = []
    foreign: list[str] = []
    for path in _top(cache):
        name = path.rpartition("/")[2]
        found = _Walk(cache, path)
        if found.is_folder and (known := _kind_of(path)):
            entries += _entries(cache, path, *known)
        elif found.is_file and "/" not in path and _FILES.fullmatch(name):
            entries.append(Entry("settings", (path,), found.size, found.used))
        else:
            foreign.append(path)
    return CacheContents(tuple(entries), tuple(foreign))


def size_and_use(folder: OpenFolder, name: str, *, alone: bool = False) -> tuple[int, float] | None:
    """Give the bytes of something in a folder, with all that is in it, and when it was used last; None where it went
    away. With `alone`, files with a second name elsewhere don't count."""
    found = _Walk(folder, name).whole(alone=alone)
    return None if found is None else (found.size, found.used)


def _top(cache: OpenFolder) -> Iterator[str]:
    for name in cache.names():
        if name in _ABOVE and cache.is_folder(name):
            with cache.enter(name) as folder:
                yield from (f"{name}/{below}" for below in folder.names())
        else:
            yield name


def _kind_of(path: str) -> tuple[str, int] | None:
    return next(((kind, depth) for pattern, kind, depth in _FOLDERS if re.fullmatch(pattern, path)), None)


def _entries(cache: OpenFolder, path: str, kind: str, depth: int) -> Iterator[Entry]:
    if kind == "conda-packages":
        yield from _packages(cache, path)
        return
    for unit in _units(cache, path, depth):
        found = _Walk(cache, unit).whole()
        if found is not None:
            busy = kind == "scratch" and depth > 0 and is_running(unit.rpartition("/")[2])
            yield Entry(kind, (unit,), found.size, found.used, busy)


def _packages(cache: OpenFolder, path: str) -> Iterator[Entry]:
    """A package's mark goes first: a folder without one is nothing, and a mark without its folder would be a lie."""
    units = set(_units(cache, path, 1))
    for unit in sorted(units):
        if (unit.endswith(_MARK) and unit.removesuffix(_MARK) in units) or unit.endswith("/.cache.lock"):
            continue
        parts = (f"{unit}{_MARK}", unit) if f"{unit}{_MARK}" in units else (unit,)
        found = [one for part in parts if (one := _Walk(cache, part).whole())]
        if found:
            yield Entry("conda-packages", parts, sum(one.size for one in found), max(one.used for one in found))


def _units(cache: OpenFolder, path: str, depth: int) -> Iterator[str]:
    """The paths so far below a folder; what ends earlier counts too."""
    if depth == 0:
        yield path
        return
    try:
        with cache.descend(path) as folder:
            names = [(name, folder.is_folder(name)) for name in folder.names()]
    except FileNotFoundError:
        return
    for name, is_folder in names:
        if is_folder:
            yield from _units(cache, f"{path}/{name}", depth - 1)
        else:
            yield f"{path}/{name}"


class _Walk:
    """One thing in the cache, itself and not what it leads to."""

    def __init__(self, cache: OpenFolder, path: str) -> None:
        self._cache, self._path = cache, path
        above, _, name = path.rpartition("/")
        with cache.descend(above) as folder:
            self.found, self.is_folder = folder.look(name), folder.is_folder(name)

    @property
    def is_file(self) -> bool:
        return self.found is not None and stat.S_ISREG(self.found.st_mode)

    @property
    def size(self) -> int:
        return self.found.st_size if self.found is not None and self.is_file else 0

    @property
    def used(self) -> float:
        return self.found.st_mtime if self.found is not None else 0.0

    def whole(self, *, alone: bool = False) -> _Found | None:
        """Its bytes with all that is in it, or with `alone` only of what has no second name; None where it went
        away."""
        if self.found is None:
            return None
        if not self.is_folder:
            return _Found(self.size, self.used)
        try:
            with self._cache.descend(self._path) as folder:
                return _Found(_bytes_in(folder, 1 if alone else None), self.used)
        except FileNotFoundError:
            return None


def _bytes_in(folder: OpenFolder, names: int | None) -> int:
    """Sum up the bytes of plain files; `names` is how many names a file may have to count, None for any."""
    size = 0
    for name in folder.names():
        found = folder.look(name)
        if found is not None and stat.S_ISREG(found.st_mode):
            size += found.st_size if names is None or found.st_nlink <= names else 0
        elif folder.is_folder(name):
            with folder.enter(name) as below:
                size += _bytes_in(below, names)
    return size
