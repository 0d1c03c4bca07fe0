"""Warnings and notes of a lock's making, and those of the notes that came with the last lock too."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app.observer import observer, say, warn
from envspec.base.cache import keep_value, read_value
from envspec.base.places import cache_dir, home_of
from envspec.base.plain_files import read_plain
from envspec.resolve.pip.behind import FAR

if TYPE_CHECKING:
    from envspec.base.finding import Finding


def notice(finding: Finding) -> None:
    """Print a finding on stderr: a warning or a note."""
    place = f"{finding.place}: " if finding.place else ""
    if finding.severity == "warning":
        warn(f"{place}{finding.text}")
    else:
        say(f"note: {place}{finding.text}", style="cyan")
    if finding.remedy:
        say(f"hint: {finding.remedy}")


class Notes:
    """Warnings and notes of one lock's making. By the content of the lock that is there, the cache has those that came
    with it.

    lock  the lock's path
    """

    def __init__(self, lock: Path) -> None:
        self._lock = lock
        self._told: list[Finding] = []
        self._keys: set[str] = set()
        path = self._entry()
        self._last = frozenset((path and read_value(path, tuple[str, ...])) or ())

    def take(self, finding: Finding) -> None:
        self._told.append(finding)

    def forget(self) -> None:
        """Drop what was taken: the same is made again."""
        self._told.clear()

    def show(self) -> None:
        """Print what was taken; what stays far behind stands above everything else. Of notes that came with the last
        lock too, a terminal gets the number."""
        told, self._told = sorted(self._told, key=lambda one: one.code != FAR), []
        self._keys.update(map(_key, told))
        counted = self._last if observer().counts_repeated else frozenset()
        again = [one for one in told if one.severity == "info" and _key(one) in counted]
        for one in told:
            if one not in again:
                notice(one)
        if again:
            notes = "1 note" if len(again) == 1 else f"{len(again)} notes"
            say(f"{notes} as with the last lock (--verbose lists {'it' if len(again) == 1 else 'them'})")

    def keep(self, *, of_all: bool) -> None:
        """Remember what came with the lock that is there now; unless all targets were solved, with what came before."""
        path = self._entry()
        if path is not None:
            keep_value(path, tuple(sorted(self._keys if of_all else self._keys | self._last)))

    def _entry(self) -> Path | None:
        with suppress(OSError):
            found = hashlib.sha256(read_plain(self._lock)).hexdigest()
            return cache_dir(os.environ, home_of(os.environ)) / "notes-v1" / found
        return None


def _key(finding: Finding) -> str:
    return hashlib.sha256(f"{finding.code} {finding.text}".encode()).hexdigest()
