"""One side of a comparison: a lock, or another tool's file in a lock's terms, and what that file can't say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from envspec.lock.model import Artifact, Lock, Pin

EVERYTHING = frozenset({"inputs", "direct", "edges", "licence", "index", "files"})
"""What a file may know of its packages. A comparison is about what both sides know: that a requirements.txt names no
licences is no change of licence.

inputs   what was asked for (TargetInputs, SpecInputs), beyond platform and Python
direct   which packages were asked for by name
edges    who needs whom
files    which file is installed, and its hash
"""


@dataclass(frozen=True)
class Side:
    """`title` is how messages call it, `format` is the module of `envspec.diff.foreign` that read it, or "envspec".
    `complete` is false for a file that names only some of what gets installed.
    `by_platform`: its targets are platforms, so they are compared with the other side's targets of the same platform.
    Of a universal file, `chosen` says with which extras and groups it was looked at, empty where it offers none, and
    `seen` where: platforms and Pythons.
    """

    title: str
    lock: Lock
    knows: frozenset[str] = EVERYTHING
    complete: bool = True
    by_platform: bool = False
    format: str = "envspec"
    chosen: str = ""
    seen: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class HashedPin(Pin):
    """A package of which only the acceptable hashes are known (`sha256` in hexadecimal), not the files they are of."""

    hashes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoosePin(Pin):
    """A package that is asked for, and not pinned: it has no version, and `specifier` is ">=2,<3", "=1.26" or "*"."""

    version: str = field(default="", init=False)
    index: str = field(default="", init=False)
    artifact: Artifact | None = field(default=None, init=False)
    specifier: str = "*"


def version_text(pin: Pin) -> str:
    """What a file says of a package's version: the one that it pins, or the specifier."""
    return pin.specifier if isinstance(pin, LoosePin) else pin.version


def selection_sentences(old: Side, new: Side) -> Iterator[str]:
    """What was chosen of universal files, in sentences: without it, nobody knows what a comparison is about."""
    if old.seen and new.seen:
        platforms = ", ".join(dict.fromkeys(platform for platform, _ in new.seen))
        pythons = ", ".join(dict.fromkeys(python for _, python in new.seen))
        yield f"looked at on {platforms} with Python {pythons}"
    if old.chosen and old.chosen == new.chosen:
        yield f"both with {old.chosen}"
        return
    for name, side in (("old", old), ("new", new)):
        if side.chosen:
            yield f"{name} with {side.chosen}"
