"""The correspondence between the targets of two sides, whatever their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from envspec.base.errors import InputError
from envspec.lock.formats.foreign.side import EVERYTHING, HashedPin, LoosePin, Side, version_text
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.review.diff.risk import different_hashes

ALIKE = 0.75
"""A target under a new name has at least this share of its packages in common with the old one, in any version."""


class Match(Struct, frozen=True):
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
        renamed_lock, title = _as_targets_of(old, after)
        return replace(plain, old=renamed_lock, old_title=title)
    if new.by_platform:
        renamed_lock, title = _as_targets_of(new, before)
        return replace(plain, new=renamed_lock, new_title=title)
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
    targets: list[LockedTarget] = []
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
        targets.append(replace(same[0], name=target.name))
    targets += [target for target in side.lock if target.name not in used]
    return _sort_targets(side.lock, targets), title


def _sort_targets(lock: Lock, targets: Iterable[LockedTarget]) -> Lock:
    return replace(lock, targets=tuple(sorted(targets, key=lambda target: target.name)))


# Two sides in the same terms: what both sides know of each package.


def comparable(old: Side, new: Side, match: Match) -> tuple[Lock, Lock]:
    """Reduce the locks of two sides (from `match`) to their common knowledge, ready for `diff`. Two envspec locks stay
    as they are."""
    knows = _both_know(old, new)
    if knows == EVERYTHING and old.complete and new.complete:
        return match.old, match.new
    before, after = match.old, match.new
    if "inputs" not in knows:
        before, after = _without_inputs(before), _without_inputs(after)
    return _comparable(before, after, old, new, knows)


def _both_know(old: Side, new: Side) -> frozenset[str]:
    """Return the common knowledge of two sides: edges only within one format, for each writes requirements its own
    way."""
    knows = old.knows & new.knows - (frozenset() if old.format == new.format else {"edges"})
    return knows | {"direct"} if _both_in_part(old, new) else knows


def _both_in_part(old: Side, new: Side) -> bool:
    """Return whether both are lists of requirements in one format: then a package that one doesn't name isn't
    required."""
    return old.format == new.format and not old.complete and not new.complete


def _without_inputs(lock: Lock) -> Lock:
    bare = (
        replace(target, inputs=TargetInputs("", "", None), architectures=(), driver_floor=None)
        for target in lock.targets
    )
    return Lock("", SpecInputs(), tuple(bare))


def _comparable(before: Lock, after: Lock, old: Side, new: Side, knows: frozenset[str]) -> tuple[Lock, Lock]:
    was: list[LockedTarget] = []
    now: list[LockedTarget] = []
    both_in_part = _both_in_part(old, new)
    for name in sorted({t.name for t in before} | {t.name for t in after}):
        left, right = before.target(name), after.target(name)
        ours = {(p.kind, p.name): p for p in left.pins} if left else {}
        theirs = {(p.kind, p.name): p for p in right.pins} if right else {}
        if left and right:
            # a file that names only some packages says nothing about the others, but beside another such file
            if not old.complete and not both_in_part:
                theirs = {key: pin for key, pin in theirs.items() if key in ours}
            if not new.complete and not both_in_part:
                ours = {key: pin for key, pin in ours.items() if key in theirs}
        pairs = {key: _pair(ours.get(key), theirs.get(key), knows) for key in sorted({*ours, *theirs})}
        if left:
            was.append(replace(left, pins=tuple(p for p, _ in pairs.values() if p)))
        if right:
            now.append(replace(right, pins=tuple(p for _, p in pairs.values() if p)))
    # no other tool's file names images
    return replace(before, targets=tuple(was), images=()), replace(after, targets=tuple(now), images=())


def _pair(old: Pin | None, new: Pin | None, knows: frozenset[str]) -> tuple[Pin | None, Pin | None]:
    before, after = (None if pin is None else _plain_pin(pin, knows) for pin in (old, new))
    if before is None or after is None or old is None or new is None:
        return before, after
    for loose, exact in ((old, new), (new, old)):
        if isinstance(loose, LoosePin) and not isinstance(exact, LoosePin) and admits(loose, exact):
            before, after = replace(before, version=exact.version), replace(after, version=exact.version)
    if before.version == after.version:
        files = _files(old, new)
        before, after = replace(before, artifact=files[0]), replace(after, artifact=files[1])
    if before.build is None or after.build is None:
        before, after = replace(before, build=None), replace(after, build=None)
    if before.index == "" or after.index == "":
        before, after = replace(before, index=""), replace(after, index="")
    return before, after


def _plain_pin(pin: Pin, knows: frozenset[str]) -> Pin:
    """Return a plain pin without the properties that the other side can't express. A specifier takes the version's
    place, so that a review shows the specifier as what changed."""
    return Pin(
        pin.kind,
        pin.name,
        version_text(pin),
        pin.index if "index" in knows or pin.git or pin.url else "",
        pin.artifact if "files" in knows else None,
        pin.dependencies if "edges" in knows else (),
        pin.direct and "direct" in knows,
        pin.licence if "licence" in knows else None,
        pin.build,
        pin.git,
        pin.url,
    )


def _files(old: Pin, new: Pin) -> tuple[Artifact | None, Artifact | None]:
    """Return the files of two pins of one version, where they contradict each other; nothing where they may be the
    same."""
    if isinstance(old, HashedPin) or isinstance(new, HashedPin):
        ours, theirs = tuple(_hashes(old)), tuple(_hashes(new))
        if ours and theirs and not set(ours) & set(theirs):
            return Artifact("", ours[0]), Artifact("", theirs[0])
        return None, None
    if old.artifact and new.artifact:
        return (old.artifact, new.artifact) if different_hashes(old.artifact, new.artifact) else (None, None)
    return None, None


def _hashes(pin: Pin) -> Iterator[str]:
    if isinstance(pin, HashedPin):
        yield from pin.hashes
    elif pin.artifact is not None and pin.artifact.sha256:
        yield pin.artifact.sha256


def admits(loose: LoosePin, exact: Pin) -> bool:
    """Return whether a required version allows the pinned one."""
    if loose.specifier == "*":
        return True
    if loose.kind == "conda":
        # a single number of a match spec, `=1.26`, `1.26.*` or `1.26`, is a prefix; for more, the text itself is shown
        prefix = loose.specifier.lstrip("=").removesuffix(".*").removesuffix("*")
        return exact.version == prefix or exact.version.startswith(f"{prefix}.")

    try:
        return SpecifierSet(loose.specifier).contains(exact.version, prereleases=True)
    except ValueError:
        return False
