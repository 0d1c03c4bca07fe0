"""The cache's contents: a survey by kind, and the choice of entries to prune.

The survey follows no link, and only names files that envspec didn't write.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from envspec.base.cache import Entry, size_and_use
from envspec.base.open_folder import OpenFolder
from envspec.base.scratch import is_running

KINDS = {
    "conda-packages": "unpacked conda packages, which installing links from",
    "conda-repodata": "what conda channels list",
    "artifacts": "files of packages, which installing and bundles take",
    "built": "wheels that were built here, which installing takes",
    "metadata": "METADATA of wheels",
    "wheels": "what wheels say of themselves",
    "linked": "what the libraries in wheels need and export",
    "sources": "what source distributions say of themselves",
    "releases": "what indexes list, by project",
    "urls": "which files lie behind URLs that requirements name",
    "publishers": "who indexes say published files",
    "notes": "which notes came with a lock",
    "bases": "what base images hold, and their manifests",
    "audit": "answers that `audit --offline` takes",
    "environments": "environments of `run`, `shell` and `install`, each for one state of a lock",
    "runs": "which environment a run found ready, and what that depended on",
    "smoke": "environments and results of smoke runs",
    "uv-private": "what older versions had uv keep of indexes whose address has a token",
    "scratch": "temporary files of commands that are running or were killed",
    "settings": "what was found out of this machine",
}
"""Every kind of entry, with its meaning."""

RETAINED_KINDS = ("environments", "smoke", "settings", "scratch")
"""The kinds that are never removed to make room: environments, results that a user may want, tiny entries, and those
that a run is using."""

GRACE = 3600.0
"""Seconds for which what was used stays, while a run that just ended makes room: another one may be at it."""


_ABANDONED = 7 * 86400.0
"""Seconds after which a run's scratch counts as left. Of a run on another host nothing else is known."""


class CacheContents(Struct, frozen=True):
    """entries  everything that envspec put there
    foreign  names in the cache's folder that envspec didn't make, and links: they are left alone
    """

    entries: tuple[Entry, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Count the entries of each kind, and their bytes; the largest kind first."""
        sizes_by_kind = {kind: [entry.size for entry in self.entries if entry.kind == kind] for kind in KINDS}
        ordered = sorted(sizes_by_kind.items(), key=lambda row: -sum(row[1]))
        return {kind: (len(sizes), sum(sizes)) for kind, sizes in ordered if sizes}


class CacheLimit(Struct, frozen=True):
    """older_than  seconds: what wasn't used for so long goes, of any kind
    most        bytes: what was used longest ago goes until there are no more
    grace       seconds: what was used within them doesn't go for `most`
    """

    older_than: float | None = None
    most: int | None = None
    grace: float = 0.0


def to_prune(entries: Iterable[Entry], bound: CacheLimit, now: float) -> tuple[Entry, ...]:
    """The entries that have to go, the ones used longest ago first: what is too old, what killed runs left, and as much
    as there is too much. What a run is at stays in any case."""
    every: Sequence[Entry] = sorted(entries, key=lambda entry: (entry.used, entry.parts))
    free = [entry for entry in every if not entry.busy or now - entry.used > _ABANDONED]
    old = bound.older_than
    gone = [entry for entry in free if entry.kind == "scratch" or (old is not None and now - entry.used > old)]
    left = sum(entry.size for entry in every) - sum(entry.size for entry in gone)
    for entry in every:
        if bound.most is None or left <= bound.most:
            break
        recent = max(0.0, now - entry.used) < bound.grace
        if entry.kind in RETAINED_KINDS or recent or not entry.size or (old is not None and now - entry.used > old):
            continue
        gone.append(entry)
        left -= entry.size
    return tuple(gone)


_FOLDERS: tuple[tuple[str, str, int], ...] = (
    (r"metadata-v[0-9]+", "metadata", 2),
    (r"wheels-v[0-9]+", "wheels", 2),
    (r"linked-v[0-9]+", "linked", 2),
    (r"sources-v[0-9]+", "sources", 2),
    (r"releases-v[0-9]+", "releases", 2),
    (r"urls-v[0-9]+", "urls", 1),
    (r"publishers-v[0-9]+", "publishers", 2),
    (r"releases-flat-v[0-9]+", "releases", 2),
    (r"notes-v[0-9]+", "notes", 1),
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
"""Folders that hold such folders and nothing else."""
_MARK = ".lock"
"""Of a conda package's mark, beside its folder; without it, rattler takes the folder for nothing."""


def survey(cache: OpenFolder) -> CacheContents:
    """List the cache's contents. Files that vanish meanwhile are left out. Raises OSError."""
    entries: list[Entry] = []
    foreign: list[str] = []
    for path in _top(cache):
        above, _, name = path.rpartition("/")
        with cache.descend(above) as folder:
            status, is_folder = folder.look(name), folder.is_folder(name)
        if is_folder and (known := _kind_of(path)):
            entries += _entries(cache, path, *known)
        elif status and stat.S_ISREG(status.st_mode) and _FILES.fullmatch(path):
            entries.append(Entry("settings", (path,), status.st_size, status.st_mtime))
        else:
            foreign.append(path)
    return CacheContents(tuple(entries), tuple(foreign))


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
        if usage := size_and_use(cache, unit):
            busy = kind == "scratch" and depth > 0 and is_running(unit.rpartition("/")[2])
            yield Entry(kind, (unit,), *usage, busy)


def _packages(cache: OpenFolder, path: str) -> Iterator[Entry]:
    """A package's mark goes first: a folder without one is nothing, and a mark without its folder would be a lie."""
    units = set(_units(cache, path, 1))
    for unit in sorted(units):
        if (unit.endswith(_MARK) and unit.removesuffix(_MARK) in units) or unit.endswith("/.cache.lock"):
            continue
        parts = (f"{unit}{_MARK}", unit) if f"{unit}{_MARK}" in units else (unit,)
        if usages := [usage for part in parts if (usage := size_and_use(cache, part))]:
            yield Entry("conda-packages", parts, sum(size for size, _ in usages), max(used for _, used in usages))


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
