"""conda's order of versions, that of its `VersionOrder`: epochs, letters before numbers, `dev` first, `post` last."""

from __future__ import annotations

import re
from functools import lru_cache

_PARTS = re.compile(r"[0-9]+|[a-z]+")

Component = tuple[tuple[int, int | str], ...]
"""One component of a version: pairs of a rank and a number or a word, in which a number may follow a word."""


def epoch_of(version: str) -> int:
    """The epoch (`1` of `1!2.0`), 0 without one."""
    epoch, mark, _ = version.partition("!")
    return _number(epoch) if mark and epoch.isdecimal() else 0


@lru_cache(maxsize=8192)
def components(version: str) -> tuple[tuple[Component, ...], tuple[Component, ...]]:
    """The release and the local part (after `+`) as comparable components."""
    rest = version.lower().rpartition("!")[2]
    release, _, local = rest.partition("+")
    return _split(release), _split(local) if local else ()


def compare(old: str, new: str) -> int:
    """Compare two versions: -1 if `old` comes before `new`, 0 if they are the same (`1.0` and `1`), else 1."""
    if epoch_of(old) != epoch_of(new):
        return -1 if epoch_of(old) < epoch_of(new) else 1
    for ours, theirs in zip(components(old), components(new), strict=True):
        length = max(len(ours), len(theirs))
        left, right = _pad(ours, length), _pad(theirs, length)
        if left != right:
            return -1 if left < right else 1
    return 0


def starts_with(version: str, prefix: str) -> bool:
    """Say whether a version matches `prefix.*`: `1.2` matches `1.2.3` and `1.2a`, not `1.20`; `1.0` matches `1a`."""
    if epoch_of(version) != epoch_of(prefix):
        return False
    wanted, wanted_local = components(prefix)
    found, local = components(version)
    return _begins(found, wanted) and _begins(local, wanted_local)


def _begins(found: tuple[Component, ...], wanted: tuple[Component, ...]) -> bool:
    # zeros that the version leaves out ask for nothing, not even that its last component ends there (rattler's rule)
    while len(wanted) > len(found) and wanted[-1] == _ZERO:
        wanted = wanted[:-1]
    if not wanted or len(wanted) > len(found):
        return not wanted
    *whole, last = wanted
    part = found[len(whole)][: len(last)]
    if found[: len(whole)] != tuple(whole) or part[:-1] != last[:-1]:
        return False
    (rank, value), (_, end) = part[-1] if len(part) == len(last) else (-1, ""), last[-1]
    if isinstance(end, str) and isinstance(value, str) and rank >= 0:
        return value.startswith(end)
    return part == last


def _split(text: str) -> tuple[Component, ...]:
    # a dash stands for an underscore; a trailing underscore (openssl's 1.0.1_) is a part of its own
    text = text.replace("-", "_")
    trailing = text.endswith("_")
    found = [_component(part) for part in re.split(r"[._]", text.rstrip("_"))]
    if trailing and found:
        found[-1] = (*found[-1], _word("_"))
    return tuple(found)


def _component(text: str) -> Component:
    parts: list[tuple[int, int | str]] = [
        (_NUMBER, _number(part)) if part.isdecimal() else _word(part) for part in _PARTS.findall(text)
    ]
    # a component starts with a number, so that 1.a1 is 1.0a1
    if not parts or parts[0][0] != _NUMBER:
        parts.insert(0, (_NUMBER, 0))
    return tuple(parts)


def _number(digits: str) -> int:
    """A number; Python reads none of more than 4300 digits. No version has one, and what claims to is the greatest."""
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS


_DIGITS = 1000
_DEV, _WORD, _NUMBER, _POST = range(4)
_ZERO: Component = ((_NUMBER, 0),)


def _word(text: str) -> tuple[int, int | str]:
    if text == "dev":
        return (_DEV, 0)
    if text == "post":
        return (_POST, 0)
    return (_WORD, text)


def _pad(parts: tuple[Component, ...], length: int) -> list[list[tuple[int, int | str]]]:
    """Pad to as many components as the other version has, all of one width, with 0."""
    return [[*part, *[(_NUMBER, 0)] * (_WIDTH - len(part))] for part in (*parts, *[_ZERO] * (length - len(parts)))]


_WIDTH = 12
"""Parts of a component: more than any real version has. A fixed width makes components comparable as lists."""
