"""The change from one lock to another: everything that differs, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from envspec.lock.model import (
    Lock,
    LockedCorrection,
    LockedImage,
    LockedPython,
    LockedTarget,
    Pin,
    SpecInputs,
    TargetInputs,
)

# One side of a comparison: a lock, or another tool's file in a lock's terms, and what that file can't say.


EVERYTHING = frozenset({"inputs", "direct", "edges", "licence", "index", "files"})
"""What a file may record about its packages. A comparison covers what both sides record: a requirements.txt, which
has no licences, doesn't change a licence.

inputs   what the spec asks for (TargetInputs, SpecInputs), beyond platform and Python
direct   which packages the spec asks for by name
edges    which package requires which
files    which file is installed, and its hash
"""


class Terms(Struct, frozen=True):
    """The terms of another tool's file, beside its packages.

    addresses  of their origins: the name of an index or a channel, or pip's option, and the address
    guards     the options by which they are checked, with their values
    loose      the options that check less, as the file has them
    hashes     the hashes of each pinned requirement, by its text
    """

    addresses: tuple[tuple[str, str], ...] = ()
    guards: tuple[tuple[str, str], ...] = ()
    loose: tuple[str, ...] = ()
    hashes: Mapping[str, frozenset[str]] = {}


class Side(Struct, frozen=True):
    """`title` is how messages call it, `format` is the module of `review.diff.foreign` that read it, or "envspec".
    `complete` is false for a file that names only some of what gets installed.
    `by_platform`: its targets are platforms, so they are compared with the other side's targets of the same platform.
    For a universal file, `chosen` says with which extras and groups it was evaluated, empty where it offers none, and
    `seen` says where: platforms and Pythons. `terms` are those of another tool's file.
    """

    title: str
    lock: Lock
    knows: frozenset[str] = EVERYTHING
    complete: bool = True
    by_platform: bool = False
    format: str = "envspec"
    chosen: str = ""
    seen: tuple[tuple[str, str], ...] = ()
    terms: Terms = Terms()


class HashedPin(Pin, frozen=True, eq=False):
    """A package of which only the accepted hashes are known (`sha256` in hexadecimal), not their files."""

    hashes: tuple[str, ...] = ()


class LoosePin(Pin, frozen=True, eq=False):
    """A required package that isn't pinned: it has no version, and `specifier` is ">=2,<3", "=1.26" or "*"."""

    specifier: str = "*"


def version_text(pin: Pin) -> str:
    """Return what a file says of a package's version: the pinned one, or the specifier."""
    return pin.specifier if isinstance(pin, LoosePin) else pin.version


def selection_sentences(old: Side, new: Side) -> Iterator[str]:
    """Say in sentences what was chosen from universal files, so that a reader knows what a comparison covers."""
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


class TargetHead(Struct, frozen=True):
    """A target without its packages."""

    inputs: TargetInputs
    architectures: tuple[str, ...]
    driver_floor: str | None

    @staticmethod
    def of(target: LockedTarget) -> TargetHead:
        return TargetHead(target.inputs, target.architectures, target.driver_floor)


class TargetChange(Struct, frozen=True):
    """A target that came (`old` is None), went (`new` is None), or is solved from other inputs."""

    name: str
    old: TargetHead | None
    new: TargetHead | None


class PinChange(Struct, frozen=True):
    """The same change of a pin in some targets, by name. `old` is None where the package came, `new` where it went."""

    old: Pin | None
    new: Pin | None
    targets: tuple[str, ...]


class PackageChange(Struct, frozen=True):
    """All changes of one package, in all targets."""

    kind: str
    name: str
    changes: tuple[PinChange, ...]


class ImageChange(Struct, frozen=True):
    """An image that came (`old` is None), went (`new` is None), or stands at another digest. Both have one name."""

    old: LockedImage | None
    new: LockedImage | None


class Diff(Struct, frozen=True):
    """The changes that lead from one lock to another.

    `names`, `inputs`, `corrections` and `pythons` hold the old and the new value, or None where they are equal. Targets
    and images are sorted by name, packages by kind and name.
    """

    names: tuple[str, str] | None = None
    inputs: tuple[SpecInputs, SpecInputs] | None = None
    targets: tuple[TargetChange, ...] = ()
    packages: tuple[PackageChange, ...] = ()
    images: tuple[ImageChange, ...] = ()
    corrections: tuple[tuple[LockedCorrection, ...], tuple[LockedCorrection, ...]] | None = None
    pythons: tuple[tuple[LockedPython, ...], tuple[LockedPython, ...]] | None = None

    def __bool__(self) -> bool:
        return self != Diff()


EMPTY = SpecInputs()


def nothing(name: str) -> Lock:
    """Return what stands for a lock that doesn't exist yet: one without targets, so all of the other lock is new."""
    return Lock(name, EMPTY, ())
