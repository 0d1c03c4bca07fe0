"""The changes and the progress of an installation, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from envspec.base.progress import Progress
from envspec.base.texts import byte_size
from envspec.lock.model import Pin

Fault = str
"""The fault of an installed package, in a few words; empty for a sound one."""


class Change(Struct, frozen=True):
    """The change of one package.

    action  "install"  it isn't installed yet
            "change"   another version, build or file of it is installed
            "repair"   it is installed, but damaged, or from an unknown file
            "remove"   it is installed, and the lock doesn't have it
    kind    "pip" or "conda"
    old     the installed version or None; new: the lock's version or None
    reason  for a repair: what is wrong
    """

    action: str
    kind: str
    name: str
    old: str | None
    new: str | None
    reason: Fault = ""


class InstallOutcome(Struct, frozen=True):
    """The result of an installation.

    status    "installed", "updated" or "unchanged"; for a dry run the status that a run would have
    changes   in the order of (kind, name)
    warnings  the findings of `pip check`, one per line
    notes     how the environment differs from the lock, and what is wrong with files but does no harm
    """

    status: str
    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Fetching(Struct):
    """The progress of the download of some packages' files."""

    progress: Progress
    _total: int = 0
    _came: int = 0

    def begin(self, pins: Sequence[Pin]) -> None:
        """Begin to count the files of missing packages."""
        self._total, self._came = sum(pin.artifact.size or 0 for pin in pins if pin.artifact), 0
        self.progress.phase(f"pip: fetching {len(pins)} {'file' if len(pins) == 1 else 'files'}")

    def came(self, count: int) -> None:
        """Count more bytes."""
        self._came += count
        known = f" of {byte_size(self._total)}" if self._total else ""
        self.progress.advance(detail=f"{byte_size(self._came)}{known}")


OnWait = Callable[[], None]
"""The callback before waiting for another process that holds the prefix."""


def shown_version(pin: Pin) -> str:
    """Give a pin's version as changes name it: conda's with its build."""
    return f"{pin.version} {pin.build}" if pin.build else pin.version


def identity(pin: Pin, key: str | None = None) -> str:
    """Give the identity of a pin's file: its hash, or the commit of a git requirement. `key` is that of all that shapes
    a wheel built of it here."""
    if key is not None:
        return f"{identity(pin)} built:{key}"
    if pin.git:
        return f"git:{pin.git.url}@{pin.git.commit}#{pin.git.subdirectory or ''}"
    return f"sha256:{pin.artifact.sha256}" if pin.artifact else f"url:{pin.url}"
