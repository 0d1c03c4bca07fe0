"""The cache's entries, and the choice of those to prune: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    "bases": "what base images hold, and their manifests",
    "audit": "answers that `audit --offline` takes",
    "environments": "environments of `run`, `shell` and `install`, each for one state of a lock",
    "runs": "which environment a run found ready, and what that depended on",
    "smoke": "environments and results of smoke runs",
    "uv-private": "what older versions had uv keep of indexes whose address has a token",
    "scratch": "temporary files of commands that are running or were killed",
    "settings": "what was found out of this machine",
}
"""Every kind of entry, and what it is."""

KEPT = ("environments", "smoke", "settings", "scratch")
"""What never goes to make room: environments, results that a user may want, tiny entries, and those that a run is
using."""

GRACE = 3600.0
"""Seconds for which what was used stays, while a run that just ended makes room: another one may be at it."""


_ABANDONED = 7 * 86400.0
"""Seconds after which a run's scratch counts as left. Of a run on another host nothing else is known."""


@dataclass(frozen=True)
class Entry:
    """The unit of pruning: it goes as a whole, or stays.

    parts  its files or folders, as paths below the cache with `/`, in the order in which they are taken away
    size   bytes
    used   when it was used last, seconds since 1970
    busy   a run is at it
    """

    kind: str
    parts: tuple[str, ...]
    size: int
    used: float
    busy: bool = False


@dataclass(frozen=True)
class CacheContents:
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
        found = {kind: [entry.size for entry in self.entries if entry.kind == kind] for kind in KINDS}
        ordered = sorted(found.items(), key=lambda item: -sum(item[1]))
        return {kind: (len(sizes), sum(sizes)) for kind, sizes in ordered if sizes}


@dataclass(frozen=True)
class Bound:
    """older_than  seconds: what wasn't used for so long goes, of any kind
    most        bytes: what was used longest ago goes until there are no more
    grace       seconds: what was used within them doesn't go for `most`
    """

    older_than: float | None = None
    most: int | None = None
    grace: float = 0.0


def to_prune(entries: Iterable[Entry], bound: Bound, now: float) -> tuple[Entry, ...]:
    """The entries that have to go, the ones used longest ago first: what is too old, what killed runs left, and as much
    as there is too much. What a run is at stays in any case."""
    every: Sequence[Entry] = sorted(entries, key=lambda entry: (entry.used, entry.parts))
    free = [entry for entry in every if not entry.busy or now - entry.used > _ABANDONED]
    old = bound.older_than
    gone = [one for one in free if one.kind == "scratch" or (old is not None and now - one.used > old)]
    left = sum(entry.size for entry in every) - sum(entry.size for entry in gone)
    for entry in every:
        if bound.most is None or left <= bound.most:
            break
        recent = max(0.0, now - entry.used) < bound.grace
        if entry.kind in KEPT or recent or not entry.size or (old is not None and now - entry.used > old):
            continue
        gone.append(entry)
        left -= entry.size
    return tuple(gone)
