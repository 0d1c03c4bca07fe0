"""The cache: reading and writing one entry, the survey, the choice of entries to prune, and their removal.

No command fails by reading or writing an entry: what is missing is found out again.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from envspec.base.documents import decode, encode
from envspec.base.errors import NotPlain
from envspec.base.open_folder import OpenFolder
from envspec.base.scratch import is_running

_EVERY = 6 * 3600


def touch(path: Path) -> None:
    """Note that it is used now. Access times won't do: many filesystems keep none. Nothing happens where it can't be
    noted, for the cache may be read-only."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _EVERY:
            os.utime(path)


_Value = TypeVar("_Value")


def read_entry(path: Path) -> bytes:
    """Read an entry, and note that it is used now. Raises OSError."""
    content = path.read_bytes()
    touch(path)
    return content


def read_value(path: Path, kind: type[_Value]) -> _Value | None:
    """Read what `keep_value` kept; None where there is nothing, and where the entry is damaged or of another type."""
    try:
        return decode(read_entry(path), kind)
    except (OSError, ValueError):
        return None


def keep_value(path: Path, value: object) -> None:
    """Write a value as an entry: records, tuples, texts, numbers, bytes."""
    keep_entry(path, encode(value))


def keep_entry(path: Path, content: str | bytes) -> None:
    """Write an entry as a whole. An unwritable cache (full, read-only) is no error: the caller has the answer."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


# The cache's contents. The survey follows no link, and only names files that envspec didn't write.

# Taking entries out of the cache: each is renamed away first, so that no other run finds half of one, on any
# filesystem and without a lock; then it is deleted from the folder that is held open, through no link.

# The cache's entries, and the choice of those to prune: pure.

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


class Entry(Struct, frozen=True):
    """The unit of pruning: it goes as a whole, or stays.

    parts  its files or folders, as paths below the cache with `/`, in the order in which they are taken away
    size   bytes
    used   the time of its last use, seconds since 1970
    busy   a run is at it
    """

    kind: str
    parts: tuple[str, ...]
    size: int
    used: float
    busy: bool = False


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


def remove(cache: OpenFolder, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Take entries away. Gives those that are gone, and why others aren't, a line each."""
    gone, reasons = [], []
    going = f".going-{secrets.token_hex(8)}"
    for entry in entries:
        try:
            for part in entry.parts:
                _take(cache, part, going)
            gone.append(entry)
        except NotPlain as error:
            reasons.append(str(error))
        except OSError as error:
            reasons.append(f"{cache.path / entry.parts[-1]} can't be removed: {error.strerror or error}")
    with suppress(OSError):
        cache.rmdir(going)
    return tuple(gone), tuple(reasons)


def _take(cache: OpenFolder, path: str, going: str) -> None:
    above, _, name = path.rpartition("/")
    try:
        with cache.descend(above) as folder:
            if folder.look(name) is None:
                return
            if not folder.is_folder(name):
                # a link goes itself
                folder.unlink(name)
                return
            if path == name and name.startswith(".going-"):
                _empty(folder, name)
                return
            with cache.enter(going, make=True) as away:
                gone = secrets.token_hex(8)
                folder.move(name, away, gone)
                _empty(away, gone)
    except FileNotFoundError:
        # another run was quicker
        return


def _empty(folder: OpenFolder, name: str) -> None:
    """Remove a folder and all that is in it. What is still open somewhere stays on some network filesystems, under
    another name, until the next time."""
    with folder.enter(name) as below:
        for member in below.names():
            if below.is_folder(member):
                _empty(below, member)
            else:
                below.unlink(member)
    folder.rmdir(name)


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
"""What holds such folders and nothing else."""
_MARK = ".lock"
"""Of a conda package's mark, beside its folder; without it, rattler takes the folder for nothing."""


class _Usage(Struct, frozen=True):
    size: int
    used: float


def survey(cache: OpenFolder) -> CacheContents:
    """List the cache's contents. Files that vanish meanwhile are left out. Raises OSError."""
    entries: list[Entry] = []
    foreign: list[str] = []
    for path in _top(cache):
        name = path.rpartition("/")[2]
        walk = _Walk(cache, path)
        if walk.is_folder and (known := _kind_of(path)):
            entries += _entries(cache, path, *known)
        elif walk.is_file and "/" not in path and _FILES.fullmatch(name):
            entries.append(Entry("settings", (path,), walk.size, walk.used))
        else:
            foreign.append(path)
    return CacheContents(tuple(entries), tuple(foreign))


def size_and_use(folder: OpenFolder, name: str, *, alone: bool = False) -> tuple[int, float] | None:
    """Give the bytes of something in a folder, with all that is in it, and when it was used last; None where it went
    away. With `alone`, files with a second name elsewhere don't count."""
    usage = _Walk(folder, name).whole(alone=alone)
    return None if usage is None else (usage.size, usage.used)


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
        usage = _Walk(cache, unit).whole()
        if usage is not None:
            busy = kind == "scratch" and depth > 0 and is_running(unit.rpartition("/")[2])
            yield Entry(kind, (unit,), usage.size, usage.used, busy)


def _packages(cache: OpenFolder, path: str) -> Iterator[Entry]:
    """A package's mark goes first: a folder without one is nothing, and a mark without its folder would be a lie."""
    units = set(_units(cache, path, 1))
    for unit in sorted(units):
        if (unit.endswith(_MARK) and unit.removesuffix(_MARK) in units) or unit.endswith("/.cache.lock"):
            continue
        parts = (f"{unit}{_MARK}", unit) if f"{unit}{_MARK}" in units else (unit,)
        usages = [usage for part in parts if (usage := _Walk(cache, part).whole())]
        if usages:
            yield Entry(
                "conda-packages", parts, sum(usage.size for usage in usages), max(usage.used for usage in usages)
            )


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
            self.status, self.is_folder = folder.look(name), folder.is_folder(name)

    @property
    def is_file(self) -> bool:
        return self.status is not None and stat.S_ISREG(self.status.st_mode)

    @property
    def size(self) -> int:
        return self.status.st_size if self.status is not None and self.is_file else 0

    @property
    def used(self) -> float:
        return self.status.st_mtime if self.status is not None else 0.0

    def whole(self, *, alone: bool = False) -> _Usage | None:
        """Its bytes with all that is in it, or with `alone` only of what has no second name; None where it went
        away."""
        if self.status is None:
            return None
        if not self.is_folder:
            return _Usage(self.size, self.used)
        try:
            with self._cache.descend(self._path) as folder:
                return _Usage(_bytes_in(folder, 1 if alone else None), self.used)
        except FileNotFoundError:
            return None


def _bytes_in(folder: OpenFolder, names: int | None) -> int:
    """Sum up the bytes of plain files; `names` is how many names a file may have to count, None for any."""
    size = 0
    for name in folder.names():
        status = folder.look(name)
        if status is not None and stat.S_ISREG(status.st_mode):
            size += status.st_size if names is None or status.st_nlink <= names else 0
        elif folder.is_folder(name):
            with folder.enter(name) as below:
                size += _bytes_in(below, names)
    return size
