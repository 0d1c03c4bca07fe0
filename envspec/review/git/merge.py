"""Merging two branches' locks into one, package by package, which git's own line-by-line merge can't do.

No solver made a merged lock, so the rules are strict. Whatever a solver would have to decide is a conflict, and the
remedy is to lock again. The rest was true on one side, and a check makes sure that it still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from envspec.lock.graph import Graph
from envspec.lock.judge import judge
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
from envspec.packages.names import conda_name, requirement_name
from envspec.review.git.program import git_output


def mark_conflicts(base: Path, ours: Path, theirs: Path, folder: Path) -> str:
    """Return both sides' texts with conflict markers where they differ. Raises ToolError."""
    text, conflicts = by_line(base, ours, theirs, folder)
    if conflicts:
        return text
    # line by line there was no conflict: what was found by package must still be seen
    mine, other = (path.read_text(encoding="utf-8", errors="surrogateescape") for path in (ours, theirs))
    return f"<<<<<<< one side\n{mine}=======\n{other}>>>>>>> the other side\n"


def by_line(base: Path, ours: Path, theirs: Path, folder: Path) -> tuple[str, bool]:
    """Return git's own merge, and whether it has conflicts. Raises ToolError."""
    labels = ["-L", "one side", "-L", "base", "-L", "the other side"]
    sides = [str(path.absolute()) for path in (ours, base, theirs)]
    # its status is the number of conflicts, 127 at most
    text = git_output(["merge-file", "-p", *labels, *sides], folder, allowed=range(128)) + "\n"
    return text, "\n<<<<<<< one side\n" in f"\n{text}"


Key = TypeVar("Key", str, tuple[str, str])
Value = TypeVar("Value")


@dataclass(frozen=True)
class Conflict:
    """What the two sides can't both have. `target` is None where the conflict concerns all targets."""

    target: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.target}: {self.message}" if self.target else self.message


@dataclass(frozen=True)
class Merged:
    """The merged lock, or None and the conflicts."""

    lock: Lock | None
    conflicts: tuple[Conflict, ...] = ()


def merge(base: Lock | None, ours: Lock, theirs: Lock) -> Merged:
    """Merge the changes of both sides since `base`; None is a base without a lock.

    Conflicts are: one package, target or input changed on both sides in different ways, or changed here and removed
    there; a target solved for new inputs on one side, and changed for the old ones on the other; conda packages changed
    on both sides, which only conda's solver can judge; and a result that can't be right (`envspec.lock.judge`).
    """
    return _Merger(base or Lock(ours.name, SpecInputs(), ()), ours, theirs).merge()


class _Clash(Exception):
    """Both sides changed a value, and to different ones."""


def _three(base: Value, ours: Value, theirs: Value) -> Value:
    if ours == theirs or theirs == base:
        return ours
    if ours == base:
        return theirs
    raise _Clash


class _Merger:
    def __init__(self, base: Lock, ours: Lock, theirs: Lock) -> None:
        self.base, self.ours, self.theirs = base, ours, theirs
        self.conflicts: list[Conflict] = []

    def merge(self) -> Merged:
        name = self.value(None, "name", self.base.name, self.ours.name, self.theirs.name)
        inputs = self.spec_inputs()
        names = sorted({target.name for lock in (self.ours, self.theirs) for target in lock})
        targets = [self.target(name, inputs) for name in names]
        kept = tuple(target for target in targets if target is not None)
        schema = max(self.ours.schema, self.theirs.schema)
        lock = Lock(name, inputs, kept, self.images(), self.corrections(kept), self.pythons(), schema)
        lock = lock.with_python_versions()
        if not lock.targets and not self.conflicts:
            self.clash(None, "both sides' removals together leave no target")
        if not self.conflicts:
            # what a branch brought along counts too: a lock that can't be right isn't merged, it is locked again
            for flaw in judge(lock):
                self.clash(", ".join(flaw.targets), flaw.message)
        return Merged(None, tuple(self.conflicts)) if self.conflicts else Merged(lock)

    def clash(self, target: str | None, message: str) -> None:
        self.conflicts.append(Conflict(target, message))

    def value(self, target: str | None, what: str, base: Value, ours: Value, theirs: Value) -> Value:
        try:
            return _three(base, ours, theirs)
        except _Clash:
            self.clash(target, f"{what} is {_show(ours)} on one side and {_show(theirs)} on the other")
            return ours

    def spec_inputs(self) -> SpecInputs:
        base, ours, theirs = self.base.inputs, self.ours.inputs, self.theirs.inputs

        def field(name: str) -> object:
            values = (getattr(side, name) for side in (base, ours, theirs))
            return self.value(None, name.replace("_", "-"), *values)

        allowed = (set(ours.allow_source) | set(theirs.allow_source)) - _removals(
            base.allow_source, ours.allow_source, theirs.allow_source
        )
        names = ("exclude_newer", "image_python", "sources", "channels", "without_corrections")
        return replace(ours, allow_source=tuple(sorted(allowed)), **{name: field(name) for name in names})  # type: ignore[arg-type]

    def corrections(self, targets: Iterable[LockedTarget]) -> tuple[LockedCorrection, ...]:
        """Keep what either side read from a wheel that is still pinned: it says the same wherever the wheel is."""
        pins = [pin for target in targets for pin in target.pins]
        rows = {*self.ours.corrections, *self.theirs.corrections}
        return tuple(sorted(one for one in rows if any(map(one.is_of, pins))))

    def pythons(self) -> tuple[LockedPython, ...]:
        sides = [{one.platform: one for one in side.pythons} for side in (self.base, self.ours, self.theirs)]
        merged = self.merge_by_key(
            sides[0],
            sides[1],
            sides[2],
            lambda platform, *_: self.clash(None, f"Python for {platform} changed on both sides"),
        )
        return tuple(merged[platform] for platform in sorted(merged))

    def images(self) -> tuple[LockedImage, ...]:
        sides = [{image.name: image.digest for image in side.images} for side in (self.base, self.ours, self.theirs)]
        merged = self.merge_by_key(
            sides[0],
            sides[1],
            sides[2],
            lambda name, mine, other: self.clash(
                None, f"the image {name} is {_show(mine)} on one side and {_show(other)} on the other"
            ),
        )
        return tuple(LockedImage(name, digest) for name, digest in sorted(merged.items()))

    def target(self, name: str, shared: SpecInputs) -> LockedTarget | None:
        base, ours, theirs = (lock.target(name) for lock in (self.base, self.ours, self.theirs))
        if ours is None or theirs is None:
            return self.one_sided_target(name, base, ours, theirs, shared)
        if _context(ours, self.ours.inputs) != _context(theirs, self.theirs.inputs):
            return self.resolved_on_one_side(name, base, ours, theirs)
        return self.merged_target(name, base, ours, theirs)

    def one_sided_target(
        self,
        name: str,
        base: LockedTarget | None,
        ours: LockedTarget | None,
        theirs: LockedTarget | None,
        shared: SpecInputs,
    ) -> LockedTarget | None:
        kept, lock = (ours, self.ours) if ours is not None else (theirs, self.theirs)
        if base is not None:
            if kept != base:
                self.clash(name, "changed on one side and removed on the other")
            return None
        if _shared_context(lock.inputs) != _shared_context(shared):
            self.clash(name, "added on one side, while the other changed what every target is solved from")
        return kept

    def resolved_on_one_side(
        self, name: str, base: LockedTarget | None, ours: LockedTarget, theirs: LockedTarget
    ) -> LockedTarget:
        """Merge a target whose platform, Python, CUDA or the like changed: the other side must not have touched it."""
        before = None if base is None else _context(base, self.base.inputs)
        if before == _context(ours, self.ours.inputs) and ours == base:
            return theirs
        if before == _context(theirs, self.theirs.inputs) and theirs == base:
            return ours
        self.clash(name, "solved for different inputs on one side, and changed on the other")
        return ours

    def merged_target(
        self, name: str, base: LockedTarget | None, ours: LockedTarget, theirs: LockedTarget
    ) -> LockedTarget:
        if ours == theirs:
            return ours
        if base is not None and base in (ours, theirs):
            return theirs if ours == base else ours
        before = base or LockedTarget(name, TargetInputs(ours.inputs.platform, ours.inputs.python, None), ())
        inputs = replace(
            ours.inputs,
            requirements=self.requirements(name, before, ours, theirs, lambda i: i.requirements, requirement_name),
            conda_requirements=self.requirements(
                name, before, ours, theirs, lambda i: i.conda_requirements, conda_name
            ),
        )
        merged = LockedTarget(
            name,
            inputs,
            self.pins(name, before, ours, theirs),
            self.value(name, "architectures", before.architectures, ours.architectures, theirs.architectures),
            self.value(name, "driver floor", before.driver_floor, ours.driver_floor, theirs.driver_floor),
        )
        if any(conflict.target == name for conflict in self.conflicts):
            return merged
        return _without_orphans(merged, ours, theirs)

    def requirements(
        self,
        target: str,
        base: LockedTarget,
        ours: LockedTarget,
        theirs: LockedTarget,
        of: Callable[[TargetInputs], Iterable[str]],
        name_of: Callable[[str], str],
    ) -> tuple[str, ...]:
        """Merge the spec's requirements package by package: two branches must not ask for a package differently."""
        sides = [_group_by_name(of(side.inputs), name_of) for side in (base, ours, theirs)]
        merged = self.merge_by_key(
            sides[0],
            sides[1],
            sides[2],
            lambda name, *_: self.clash(target, f"the spec asks for {name} differently on the two sides"),
        )
        return tuple(sorted(text for texts in merged.values() for text in texts))

    def pins(self, target: str, base: LockedTarget, ours: LockedTarget, theirs: LockedTarget) -> tuple[Pin, ...]:
        conda = [tuple(pin for pin in side.pins if pin.kind == "conda") for side in (base, ours, theirs)]
        try:
            _three(*conda)
        except _Clash:
            self.clash(target, "conda packages changed on both sides")
            return ours.pins
        solved = [
            {(pin.kind, pin.name): replace(pin, direct=False) for pin in side.pins} for side in (base, ours, theirs)
        ]
        direct = [{(pin.kind, pin.name) for pin in side.pins if pin.direct} for side in (base, ours, theirs)]
        asked = (direct[1] | direct[2]) - _removals(*direct)

        def clash(key: tuple[str, str], mine: Pin | None, other: Pin | None) -> None:
            self.clash(target, f"{key[1]} {_describe_clash(mine, other)}")

        merged = self.merge_by_key(solved[0], solved[1], solved[2], clash)
        return tuple(replace(pin, direct=key in asked) for key, pin in sorted(merged.items()))

    def merge_by_key(
        self,
        base: Mapping[Key, Value],
        ours: Mapping[Key, Value],
        theirs: Mapping[Key, Value],
        clash: Callable[[Key, Value | None, Value | None], None],
    ) -> dict[Key, Value]:
        merged: dict[Key, Value] = {}
        for key in {**ours, **theirs}:
            mine, other = ours.get(key), theirs.get(key)
            try:
                value = _three(base.get(key), mine, other)
            except _Clash:
                clash(key, mine, other)
                continue
            if value is not None:
                merged[key] = value
        return merged


def _context(target: LockedTarget, shared: SpecInputs) -> tuple[object, ...]:
    """Return what a target is solved for, besides its requirements: a change here makes all its pins invalid."""
    return (replace(target.inputs, requirements=(), conda_requirements=()), _shared_context(shared))


def _shared_context(shared: SpecInputs) -> SpecInputs:
    """Merge allow-source name by name: permission to build one package says nothing about the others."""
    return replace(shared, allow_source=())


def _removals(base: Collection[Key], ours: Collection[Key], theirs: Collection[Key]) -> set[Key]:
    return {one for one in base if one not in ours or one not in theirs}


def _group_by_name(texts: Iterable[str], name_of: Callable[[str], str]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for text in sorted(texts):
        name = name_of(text)
        groups[name] = (*groups.get(name, ()), text)
    return groups


def _without_orphans(merged: LockedTarget, ours: LockedTarget, theirs: LockedTarget) -> LockedTarget:
    """Drop the pins that each side still needs, but nothing needs after both sides' removals."""
    known = {node for side in (ours, theirs) for node in Graph.of(side).unreached()}
    # conda's solver adds packages of its own accord
    orphans = {node for node in Graph.of(merged).unreached() if node.kind == "pip"} - known
    return replace(merged, pins=tuple(pin for pin in merged.pins if (pin.kind, pin.name) not in orphans))


def _describe_clash(ours: Pin | None, theirs: Pin | None) -> str:
    if ours is None or theirs is None:
        pin = ours or theirs
        return f"is removed on one side and changed on the other, to {pin.version if pin else ''}"
    if ours.version != theirs.version:
        return f"is {ours.version} on one side and {theirs.version} on the other"
    return f"is {ours.version} on both sides, with different recorded metadata"


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "empty"
    return "not set" if value is None else str(value)
