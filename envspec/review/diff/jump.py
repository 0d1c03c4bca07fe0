"""The distance between two versions, by the order of their own ecosystem: PEP 440 for pip, conda's for conda."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.packages import conda

KINDS = ("epoch", "major", "minor", "patch", "pre-release", "post-release", "local", "other", "none")
"""Kinds of jumps, by the first part that differs. `other` is for texts that aren't versions, `none` for equal versions.

`pre-release` and `post-release` are moves within one release (2.0rc1 to 2.0, 2.0 to 2.0.post1), `local` the part
behind the plus.
"""

_CALENDAR = 1990
"""A first number from here on is a year: 2025.9 to 2026.1 doesn't announce a breaking change."""


class Jump(Struct, frozen=True):
    """`kind` is one of `KINDS`; `down` says that the new version is the older one. Local parts name a build and have no
    order: a move from 2.9.1+cu126 to 2.9.1 isn't down."""

    kind: str
    down: bool = False
    to_prerelease: bool = False

    def __str__(self) -> str:
        return f"{self.kind} down" if self.down else self.kind


@lru_cache(maxsize=4096)
def jump(kind: str, old: str, new: str, *, by_year: bool = False) -> Jump:
    """Return the jump from `old` to `new` of a package of `kind` ("pip" or "conda"). `by_year` says that the first
    number is a year also where it has two digits."""
    if old == new:
        return Jump("none")
    distance = _conda(old, new) if kind == "conda" else _pip(old, new)
    return replace(distance, kind="minor") if by_year and distance.kind == "major" else distance


def _pip(old: str, new: str) -> Jump:
    try:
        was, now = Version(old), Version(new)
    except ValueError:
        return Jump("other")
    down = now < was
    to_prerelease = now.is_prerelease and not was.is_prerelease
    if was.epoch != now.epoch:
        return Jump("epoch", down, to_prerelease)
    if part := _part(was.release, now.release):
        return Jump(part, down, to_prerelease)
    if (was.pre, was.dev) != (now.pre, now.dev):
        return Jump("pre-release", down, to_prerelease)
    if was.post != now.post:
        return Jump("post-release", down)
    # what is left is the local part, or another spelling of the same version
    return Jump("local") if was.local != now.local else Jump("none")


def _conda(old: str, new: str) -> Jump:
    order = conda.compare(old, new)
    if order == 0:
        return Jump("none")
    down = order > 0
    if conda.epoch_of(old) != conda.epoch_of(new):
        return Jump("epoch", down)
    (was, was_local), (now, now_local) = conda.components(old), conda.components(new)
    if was == now:
        return Jump("local") if was_local != now_local else Jump("none", down)
    numbers = [tuple(c[0][1] if isinstance(c[0][1], int) else 0 for c in parts) for parts in (was, now)]
    part = _part(*numbers)
    return Jump(part or "pre-release", down)


def _part(was: tuple[int, ...], now: tuple[int, ...]) -> str | None:
    """Return the index of the first number that differs; None when none does (1.0 and 1)."""
    length = max(len(was), len(now), 3)
    pairs = list(zip(_pad(was, length), _pad(now, length), strict=True))
    place = next((index for index, (a, b) in enumerate(pairs) if a != b), None)
    if place is None:
        return None
    if place == 0 and min(pairs[0]) >= _CALENDAR:
        return "minor"
    return ("major", "minor", "patch")[min(place, 2)]


def _pad(numbers: tuple[int, ...], length: int) -> tuple[int, ...]:
    return (*numbers, *(0,) * (length - len(numbers)))
