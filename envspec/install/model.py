"""What an installation does and tells, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from envspec.lock.model import Pin
from envspec.texts import byte_size

Fault = str
"""Why an installed package isn't sound, in a few words; empty when it is."""


@dataclass(frozen=True)
class Change:
    """What happens to one package.

    action  "install"  it isn't there yet
            "change"   another version, build or file of it is there
            "repair"   it is there, but damaged, or nobody knows from which file
            "remove"   it is there, and the lock doesn't have it
    kind    "pip" or "conda"
    old     what is there, None when it isn't; new: what the lock has, None when it has nothing
    reason  for a repair: what is wrong
    """

    action: str
    kind: str
    name: str
    old: str | None
    new: str | None
    reason: Fault = ""


@dataclass(frozen=True)
class InstallOutcome:
    """How an installation ended.

    status    "installed", "updated" or "unchanged"; for a dry run what it would be
    changes   in the order of (kind, name)
    warnings  what `pip check` finds, a line each
    """

    status: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()


class InstallProgress(Protocol):
    """Told how far the work is. Calls may come from several threads."""

    def phase(self, text: str, total: int | None = None) -> None:
        """Something new begins; `total` is how many steps it has, where that is known."""

    def advance(self, done: int | None = None, detail: str = "") -> None:
        """So many steps of the phase are done; `detail` is what it's at now."""


class SilentInstall:
    """Progress that nobody watches."""

    def phase(self, text: str, total: int | None = None) -> None:
        """Say nothing."""

    def advance(self, done: int | None = None, detail: str = "") -> None:
        """Say nothing."""


@dataclass
class Fetching:
    """Tells a progress how much of some packages' files has come."""

    progress: InstallProgress
    _total: int = 0
    _came: int = 0

    def begin(self, pins: Sequence[Pin]) -> None:
        """These are missing, and fetched from here on."""
        self._total, self._came = sum(pin.artifact.size or 0 for pin in pins if pin.artifact), 0
        self.progress.phase(f"pip: fetching {len(pins)} {'file' if len(pins) == 1 else 'files'}")

    def came(self, count: int) -> None:
        """So many bytes more."""
        self._came += count
        known = f" of {byte_size(self._total)}" if self._total else ""
        self.progress.advance(detail=f"{byte_size(self._came)}{known}")


OnWait = Callable[[], None]
"""Called before waiting for another process that holds the prefix."""


def shown_version(pin: Pin) -> str:
    """A pin's version as changes name it: conda's with its build."""
    return f"{pin.version} {pin.build}" if pin.build else pin.version


def identity(pin: Pin) -> str:
    """What a pin's file is known by: its hash, or the commit of a git requirement."""
    if pin.git:
        return f"git:{pin.git.url}@{pin.git.commit}#{pin.git.subdirectory or ''}"
    return f"sha256:{pin.artifact.sha256}" if pin.artifact else f"url:{pin.url}"
