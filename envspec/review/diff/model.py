"""The change from one lock to another: everything that differs, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from envspec.lock.formats.foreign.side import Side
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


def selection_sentences(old: Side, new: Side) -> Iterator[str]:
    """Write sentences on the parts chosen from universal files, so that a reader knows the reach of a comparison."""
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
    """Return the stand-in for a lock that doesn't exist yet: a lock without targets, so all of the other lock is
    new."""
    return Lock(name, EMPTY, ())
