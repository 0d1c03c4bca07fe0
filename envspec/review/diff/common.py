"""Two sides in the same terms: what both sides know of each package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from packaging.specifiers import SpecifierSet

from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.review.diff.matching import Match
from envspec.review.diff.risk import different_hashes
from envspec.review.diff.side import EVERYTHING, HashedPin, LoosePin, Side, version_text


def comparable(old: Side, new: Side, match: Match) -> tuple[Lock, Lock]:
    """Reduce the locks of two sides (from `match`) to what both know, ready for `diff`. Two envspec locks stay as they
    are."""
    knows = _both_know(old, new)
    if knows == EVERYTHING and old.complete and new.complete:
        return match.old, match.new
    before, after = match.old, match.new
    if "inputs" not in knows:
        before, after = _without_inputs(before), _without_inputs(after)
    return _comparable(before, after, old, new, knows)


def _both_know(old: Side, new: Side) -> frozenset[str]:
    """Return what can be compared. Edges only within one format: two formats write the same requirement differently."""
    return old.knows & new.knows - (frozenset() if old.format == new.format else {"edges"})


def _without_inputs(lock: Lock) -> Lock:
    bare = (
        replace(target, inputs=TargetInputs("", "", None), architectures=(), driver_floor=None)
        for target in lock.targets
    )
    return Lock("", SpecInputs(), tuple(bare))


def _comparable(before: Lock, after: Lock, old: Side, new: Side, knows: frozenset[str]) -> tuple[Lock, Lock]:
    was: list[LockedTarget] = []
    now: list[LockedTarget] = []
    for name in sorted({t.name for t in before} | {t.name for t in after}):
        left, right = before.target(name), after.target(name)
        ours = {(p.kind, p.name): p for p in left.pins} if left else {}
        theirs = {(p.kind, p.name): p for p in right.pins} if right else {}
        if left and right:
            # a file that names only some packages says nothing about the others
            if not old.complete:
                theirs = {key: pin for key, pin in theirs.items() if key in ours}
            if not new.complete:
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
    """Return a plain pin without what the other side can't say. A specifier takes the version's place, so that a review
    shows the specifier as what changed."""
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
        wanted = loose.specifier.lstrip("=").removesuffix(".*").removesuffix("*")
        return exact.version == wanted or exact.version.startswith(f"{wanted}.")

    try:
        return SpecifierSet(loose.specifier).contains(exact.version, prereleases=True)
    except ValueError:
        return False
