"""The correspondence between the targets of two sides, whatever their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from envspec.base.errors import InputError
from envspec.lock.model import Lock, LockedTarget
from envspec.review.diff.side import Side, version_text

ALIKE = 0.75
"""A target under a new name has at least this share of its packages in common with the old one, in any version."""


@dataclass(frozen=True)
class Match:
    """The locks of two sides, with the same names for corresponding targets, and the sides' titles.

    `renamed` holds the old and the new name of each target that was renamed: both locks have the new one.
    """

    old: Lock
    new: Lock
    old_title: str
    new_title: str
    renamed: tuple[tuple[str, str], ...] = ()


def match_targets(old: Side, new: Side) -> Match:
    """Match the targets of two sides: by name, then by platform where a file's targets are platforms, else by content.

    Raises InputError for a file with several environments for a platform and no obvious choice.
    """
    before, after = old.lock, new.lock
    plain = Match(before, after, old.title, new.title)
    if "inputs" in old.knows & new.knows:
        renamed = dict(_renames(before, after))
        if not renamed:
            return plain
        targets = (replace(target, name=renamed.get(target.name, target.name)) for target in before)
        return replace(plain, old=_sort_targets(before, targets), renamed=tuple(sorted(renamed.items())))
    if {t.name for t in before} & {t.name for t in after}:
        return plain
    if old.by_platform:
        found, title = _as_targets_of(old, after)
        return replace(plain, old=found, old_title=title)
    if new.by_platform:
        found, title = _as_targets_of(new, before)
        return replace(plain, new=found, new_title=title)
    return plain


def _renames(old: Lock, new: Lock) -> Iterator[tuple[str, str]]:
    """Pair targets that went with those that came for the same machines, with nearly the same packages."""
    gone = [target for target in old if new.target(target.name) is None]
    come = [target for target in new if old.target(target.name) is None]
    pairs = [(_common(was, now), was.name, now.name) for was in gone for now in come if _for_the_same(was, now)]
    done: set[str] = set()
    # the most alike first; among equals, the names decide
    for common, was, now in sorted(pairs, key=lambda pair: (-pair[0][0], -pair[0][1], *pair[1:])):
        if common[1] >= ALIKE and f"old {was}" not in done and f"new {now}" not in done:
            done |= {f"old {was}", f"new {now}"}
            yield was, now


def _for_the_same(old: LockedTarget, new: LockedTarget) -> bool:
    was, now = old.inputs, new.inputs
    machines = (was.platform, was.python, was.cuda, set(was.gpus))
    return machines == (now.platform, now.python, now.cuda, set(now.gpus))


def _common(old: LockedTarget, new: LockedTarget) -> tuple[float, float]:
    """Return the share of packages that two targets have in common: in the same version, and in any version."""
    was, now = ({(pin.kind, pin.name): version_text(pin) for pin in target.pins} for target in (old, new))
    every = len({*was, *now})
    if not every:
        return 1.0, 1.0
    return len(was.items() & now.items()) / every, len(was.keys() & now.keys()) / every


def _as_targets_of(side: Side, other: Lock) -> tuple[Lock, str]:
    """Give a side's lock a target for each one of `other`: its own of the same platform. Targets without a counterpart
    stay.

    Of several environments for a platform, this takes the one with the target's name, else `default`, which its tool
    takes unless told otherwise. The title says so.
    """
    found: list[LockedTarget] = []
    used: set[str] = set()
    title = side.title
    for target in other:
        platform = target.inputs.platform
        same = [t for t in side.lock if platform in ("", t.inputs.platform) or not t.inputs.platform]
        if len({t.inputs.platform for t in same}) > 1 or not same:
            continue
        if len(same) > 1:
            environments = {t.name.partition("/")[0]: t for t in same}
            chosen = next((name for name in (target.name, "default") if name in environments), None)
            if chosen is None:
                raise InputError(
                    f"{side.title} has several environments for {same[0].inputs.platform}: {', '.join(environments)}",
                    hint=f"name the one to compare default, or {target.name} like the target",
                )
            if chosen == "default":
                title = f"{side.title} (its environment default)"
            same = [environments[chosen]]
        used.add(same[0].name)
        found.append(replace(same[0], name=target.name))
    found += [target for target in side.lock if target.name not in used]
    return _sort_targets(side.lock, found), title


def _sort_targets(lock: Lock, targets: Iterable[LockedTarget]) -> Lock:
    return replace(lock, targets=tuple(sorted(targets, key=lambda target: target.name)))
