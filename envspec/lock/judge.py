"""A lock against its spec and itself: everything that can be told of it offline.

What is found consistent here is still only consistent: whether the indexes serve these files is theirs to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NewType

from envspec.errors import LockError, Place
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedTarget, SpecInputs
from envspec.lock.rules import cuda, derived, files, requirements, sources
from envspec.lock.rules.case import Flaw as Flaw
from envspec.lock.rules.case import LockedCase, merged
from envspec.spec.model import Spec
from envspec.texts import printable

SoundLock = NewType("SoundLock", Lock)
"""A lock that was judged and found sound. What installs, exports or runs takes no other, and only `sound` gives one."""

WRONG_BUILDS = frozenset({"wrong-cuda", "cpu-build"})
"""The codes of what belongs to another CUDA, or to none."""

_RULES: tuple[Callable[[LockedCase], Iterator[Flaw]], ...] = (
    cuda.wrong_builds,
    sources.unnamed_sources,
    sources.built_sources,
    sources.wrong_indexes,
    files.wrong_files,
    files.wrong_hashes,
    requirements.unmet,
    requirements.unasked,
    requirements.provided_twice,
    derived.wrong_marks,
    derived.wrong_target_facts,
)


class UnsoundLock(LockError):
    """What a lock pins can't be right for its spec: it is old, or somebody tampered with it.

    `flaws` has all of them; the text names the first.
    """

    def __init__(self, path: str, flaws: Sequence[Flaw], relock: str) -> None:
        self.flaws = tuple(flaws)
        left = len(self.flaws) - _TOLD
        lines = [f"{printable(flaw.message)}  [{flaw.code}]" for flaw in _varied(self.flaws)[:_TOLD]]
        more = [f"and {left} more: `envspec check` names them"] if left > 0 else []
        super().__init__(
            "\n  ".join(["what the lock pins can't be right for its spec:", *lines, *more]),
            hint=f"`{relock}` solves anew what fails; if nobody of you changed the lock, find out who did",
            place=Place(path),
        )


_TOLD = 8


def _varied(flaws: Sequence[Flaw]) -> list[Flaw]:
    """The first of each code before the second of any: many of one kind must not hide the others."""
    seen: Counter[str] = Counter()
    ranked = []
    for flaw in flaws:
        ranked.append((seen[flaw.code], flaw))
        seen[flaw.code] += 1
    return [flaw for _, flaw in sorted(ranked, key=lambda one: one[0])]


def judge(lock: Lock, spec: Spec | None = None) -> tuple[Flaw, ...]:
    """What is wrong with a lock; empty when nothing is.

    With a spec, every target is held against what the spec asks for now, whatever the lock says that it was. Without
    one, against the inputs that the lock records.
    """
    if spec is None:
        return merged(flaw for target in lock for flaw in judge_target(target, lock.inputs))
    shared = spec_inputs(spec)
    asked = {target.name: target_inputs(spec, target) for target in spec.targets}
    return merged(
        flaw
        for target in lock
        for flaw in (
            judge_target(replace(target, inputs=asked[target.name]), shared)
            if target.name in asked
            else (Flaw("unknown-target", (target.name,), None, "the spec has no such target"),)
        )
    )


def judge_target(target: LockedTarget, shared: SpecInputs) -> tuple[Flaw, ...]:
    """The same of one target, by the inputs that it has."""
    case = LockedCase(target, shared)
    return tuple(flaw for rule in _RULES for flaw in rule(case))


def sound(lock: Lock, spec: Spec, path: str) -> SoundLock:
    """The lock, judged against its spec. Raises UnsoundLock; `path` is the lock's, for the message."""
    flaws = judge(lock, spec)
    if flaws:
        raise UnsoundLock(path, flaws, f"envspec lock {spec.path}")
    return SoundLock(lock)
