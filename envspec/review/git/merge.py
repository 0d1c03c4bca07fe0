"""Two branches' locks as one, by package: where git's own merge by lines leaves a conflict.

No change is dropped silently: where both sides changed a value differently, the newer counts, and the merge names it.
`envspec lock` begins with the result, which may contradict itself like any lock that git merged, and is judged like
one.

Why it is so: docs/design/13-merging-locks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace

from envspec.facts.compute_capability import REST_UNREAD
from envspec.lock.model import Lock, LockedPython, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.net.index_proxy.releases import is_older
from envspec.packages import conda
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.version_numbers import numbers_in
from envspec.review.git.program import git_output


def by_line(base: Path, ours: Path, theirs: Path, folder: Path) -> tuple[str, bool]:
    """Return git's own merge, and whether it has conflicts. Raises ToolError."""
    labels = ["-L", "one side", "-L", "base", "-L", "the other side"]
    sides = [str(path.absolute()) for path in (ours, base, theirs)]
    # its status is the number of conflicts, 127 at most
    text = git_output(["merge-file", "-p", *labels, *sides], folder, allowed=range(128)) + "\n"
    return text, "\n<<<<<<< one side\n" in f"\n{text}"


class MergeConflict(Struct, frozen=True):
    """A value that both sides changed differently. `targets` are empty where it concerns all."""

    message: str
    targets: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{', '.join(self.targets)}: {self.message}" if self.targets else self.message


class Merged(Struct, frozen=True):
    """The merged lock, and the conflicts of which it has the newer side."""

    lock: Lock
    conflicts: tuple[MergeConflict, ...] = ()


def merge(base: Lock | None, ours: Lock, theirs: Lock) -> Merged:
    """Merge the changes of both sides since `base`; None is a base without a lock. A target that one side removed goes,
    and so does a package that nothing requires any more. Anything else that one side removed and the other changed
    stays, and is a conflict. In a target that one side moved to another CUDA, Python or platform, that side counts. A
    target that one side renamed has its new name on the other side too. A side's new target follows the other side's
    changes of all targets."""
    if base is not None:
        names = _new_names(base, theirs) | _new_names(base, ours)
        base, ours, theirs = (_rename_targets(lock, names) for lock in (base, ours, theirs))
    base_entries, our_entries, their_entries = (_entries(lock) if lock else {} for lock in (base, ours, theirs))
    mine = _bring_to_new_targets(base_entries, our_entries, their_entries)
    other = _bring_to_new_targets(base_entries, their_entries, our_entries)
    gone = {key[0] for key in base_entries if key[1] == _TARGET and not (key in mine and key in other)}
    merged: dict[_Key, Any] = {}
    removed: dict[_Key, Pin] = {}
    conflicts: dict[str, list[str]] = {}
    for key in sorted(mine.keys() | other.keys()):
        sides = mine.get(key), other.get(key)
        if key[0] in gone:
            continue
        if sides[0] == sides[1] or sides[1] == base_entries.get(key):
            merged[key] = sides[0]
        elif sides[0] == base_entries.get(key):
            merged[key] = sides[1]
        elif _same_but_for_code(*sides):
            merged[key] = max(
                filter(None, sides), key=lambda pin: (bool(pin.code), REST_UNREAD not in pin.code, pin.code)
            )
        elif None in sides and key[1] in _REQUIRING:
            removed[key] = next(filter(None, sides))
        elif (solved := _find_moved_side(key[0], base_entries, mine, other)) is not None and key[1] in _REQUIRING:
            merged[key] = solved.get(key)
        else:
            merged[key] = _newer(key, *sides)
            if key[1] not in _OF_THE_LATER:
                conflicts.setdefault(_describe(key, *sides), []).append(key[0])
    required = {package for key, value in merged.items() for package in _requires(key, value)}
    merged |= {key: pin for key, pin in removed.items() if key in required}
    lock = _lock(ours.name, {key: merged[key] for key in sorted(merged) if merged[key] is not None})
    merge_conflicts = (MergeConflict(text, tuple(filter(None, targets))) for text, targets in conflicts.items())
    return Merged(lock.with_python_versions(), tuple(merge_conflicts))


_Key = tuple[str, ...]
"""Of an entry: the target ("" for all), the kind of entry, and the name where a kind has several."""
_Entries = Mapping[_Key, Any]


def _find_moved_side(target: str, was: _Entries, mine: _Entries, other: _Entries) -> _Entries | None:
    """Find the one side that moved a target to another machine: of changes on both sides, that side's are right."""
    fields = [(target, name) for name in ("platform", "cuda", "python")]
    moved = [side for side in (mine, other) if any(side.get(key) != was.get(key) for key in fields)]
    return moved[0] if len(moved) == 1 else None


def _bring_to_new_targets(was: _Entries, side: _Entries, other: _Entries) -> _Entries:
    """Apply the other side's changes of the whole spec to a side's new targets. An entry changes where it changed alike
    in all targets that had it alike; targets that the other side moved to another machine don't count."""
    before, now, after = ({key[0] for key in entries if key[1] == _TARGET} for entries in (was, side, other))
    stood = [name for name in before & after if all(was.get((name, at)) == other.get((name, at)) for at in _MACHINE)]
    updated = dict(side)
    rest = {key[1:] for key in (*was, *other) if key[0] in stood and key[1] not in _OF_ONE_TARGET}
    for target, what in product(now - before - after, rest):
        key = (target, *what)
        moved = [other.get((name, *what)) for name in stood if was.get((name, *what)) == side.get(key)]
        if moved and all(value == moved[0] for value in moved):
            updated[key] = moved[0]
    return updated


def _new_names(base: Lock, side: Lock) -> dict[str, str]:
    """Find the targets of `base` that a side has under another name: the lost and the new target have equal inputs."""
    went = [target for target in base if side.target(target.name) is None]
    came = [target for target in side if base.target(target.name) is None]
    names = {}
    for old in went:
        same = [new.name for new in came if new.inputs == old.inputs]
        if len(same) == 1 and sum(other.inputs == old.inputs for other in went) == 1:
            names[old.name] = same[0]
    return names


def _rename_targets(lock: Lock, names: Mapping[str, str]) -> Lock:
    """Give targets their new names, but for those whose new name is taken."""
    free = {old: new for old, new in names.items() if lock.target(new) is None}
    targets = (replace(target, name=free.get(target.name, target.name)) for target in lock)
    return replace(lock, targets=tuple(sorted(targets, key=attrgetter("name"))))


_REQUIRING: Mapping[str, Callable[[str], str]] = {"pip": requirement_name, "conda": conda_name}
"""The kinds of packages, with what names the package of a dependency."""
_TARGET, _DIRECT = "target", "direct"
_MACHINE = ("platform", "cuda")
_OF_ONE_TARGET = (*_MACHINE, "glibc", "gpus", "driver", "cpu", "architectures", "driver_floor", _TARGET)
_OF_THE_LATER = ("exclude_newer",)
"""The inputs that both sides' pins agree with, where the later counts."""

_NAMES: Mapping[str, Callable[[Any], str]] = {
    "allow_source": str,
    "without_corrections": str,
    "requirements": requirement_name,
    "conda_requirements": conda_name,
    "constraints": requirement_name,
    "overrides": itemgetter(0),
    "find_links": itemgetter(0),
    "addresses": itemgetter(0),
    "accept": itemgetter(0),
    "images": attrgetter("name"),
    "pythons": attrgetter("platform"),
    "bases": attrgetter("platform"),
    "corrections": repr,
}
"""The lists that are merged item by item, with an item's name."""


def _entries(lock: Lock) -> dict[_Key, Any]:
    entries: dict[_Key, Any] = {}
    parts: list[tuple[str, SpecInputs | TargetInputs]] = [(target.name, target.inputs) for target in lock]
    for owner, part in (("", lock.inputs), *parts):
        for field in fields(part):
            entries.update(_field_entries(owner, field.name, getattr(part, field.name)))
    for name in ("images", "pythons", "corrections", "bases"):
        entries.update(_field_entries("", name, getattr(lock, name)))
    for target in lock:
        entries[target.name, _TARGET] = True
        entries[target.name, "architectures"] = target.architectures
        entries[target.name, "driver_floor"] = target.driver_floor
        for pin in target.pins:
            entries[target.name, pin.kind, pin.name] = replace(pin, direct=False)
            if pin.direct:
                entries[target.name, _DIRECT, pin.kind, pin.name] = True
    return entries


def _field_entries(owner: str, name: str, value: Any) -> Iterator[tuple[_Key, Any]]:
    if isinstance(value, Mapping):
        yield from (((owner, name, key), member) for key, member in value.items())
    elif name in _NAMES:
        groups: dict[str, tuple[Any, ...]] = {}
        for member in value:
            groups[_NAMES[name](member)] = (*groups.get(_NAMES[name](member), ()), member)
        yield from (((owner, name, key), group) for key, group in groups.items())
    else:
        yield (owner, name), value


def _requires(key: _Key, value: Any) -> Iterator[_Key]:
    """List the packages that an entry of a target leads to."""
    if isinstance(value, Pin):
        yield from ((key[0], key[1], _REQUIRING[key[1]](line)) for line in value.dependencies)
    elif value and key[1] in ("requirements", "conda_requirements"):
        yield key[0], "conda" if key[1].startswith("conda") else "pip", key[2]


def _lock(name: str, entries: Mapping[_Key, Any]) -> Lock:
    def items(owner: str, field: str) -> tuple[Any, ...]:
        members = [member for key, group in entries.items() if key[:2] == (owner, field) for member in group]
        return tuple(members if field in ("images", "pythons", "bases") else sorted(members))

    def inputs(owner: str, kind: type[_Part]) -> _Part:
        values: dict[str, Any] = {field.name: entries.get((owner, field.name)) for field in fields(kind)}
        values |= {field_name: items(owner, field_name) for field_name in values if field_name in _NAMES}
        if "sources" in values:
            values["sources"] = {key[2]: value for key, value in entries.items() if key[:2] == ("", "sources")}
        return kind(**values)

    def pins(owner: str) -> tuple[Pin, ...]:
        return tuple(
            replace(value, direct=(owner, _DIRECT, *key[1:]) in entries)
            for key, value in entries.items()
            if key[0] == owner and isinstance(value, Pin)
        )

    targets = tuple(
        LockedTarget(
            owner,
            inputs(owner, TargetInputs),
            pins(owner),
            entries[owner, "architectures"],
            entries.get((owner, "driver_floor")),
        )
        for owner in (key[0] for key in entries if key[1] == _TARGET)
    )
    images, corrections, pythons, bases = (items("", part) for part in ("images", "corrections", "pythons", "bases"))
    every = [pin for target in targets for pin in target.pins]
    corrections = tuple(correction for correction in corrections if any(map(correction.is_of, every)))
    return Lock(name, inputs("", SpecInputs), targets, images, corrections, pythons, bases)


_Part = TypeVar("_Part", SpecInputs, TargetInputs)


def _same_but_for_code(ours: Any, theirs: Any) -> bool:
    """Return whether two sides are the same pin, apart from how much of its wheel was read."""
    return isinstance(ours, Pin) and isinstance(theirs, Pin) and replace(ours, code=theirs.code) == theirs


def _newer(key: _Key, ours: Any, theirs: Any) -> Any:
    """Return the newer of two sides, or the only one. Values without an order give the same result whichever side is
    ours."""
    if key[1] == "images":
        return None  # the registry is asked again
    first, second = sorted((ours, theirs), key=lambda side: (side is not None, _age(side), repr(side)))
    return first if isinstance(first, Pin) and isinstance(second, Pin) and _is_older(second, first) else second


def _is_older(pin: Pin, than: Pin) -> bool:
    if pin.kind == "conda":
        return conda.compare(pin.version, than.version) < 0
    return is_older(pin.version, than.version)


def _age(side: Any) -> tuple[object, ...]:
    python = side[0] if isinstance(side, tuple) and side else None
    return (numbers_in(python.version), python.build) if isinstance(python, LockedPython) else ()


def _describe(key: _Key, ours: Any, theirs: Any) -> str:
    what = key[2] if isinstance(ours or theirs, Pin) else " ".join(key[1:]).replace("_", "-")
    if isinstance(ours, Pin) and isinstance(theirs, Pin) and ours.version == theirs.version:
        return f"{what} is {ours.version} on both sides, with different recorded metadata"
    return f"{what} is {_show(ours)} on one side and {_show(theirs)} on the other"


def _show(side: Any) -> str:
    if isinstance(side, tuple):
        return ", ".join(map(_show, side)) or "nothing"
    return "removed" if side is None else str(getattr(side, "version", None) or getattr(side, "digest", side))
