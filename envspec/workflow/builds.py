"""The build environments of a lock's sources: those of the old lock that still hold, and new ones for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from envspec.facts.torch_builds import build_bounds
from envspec.lock.model import BuildPin, Lock, Pin
from envspec.record import replace
from envspec.resolve.pip.build_environment import BuildWanted
from envspec.spec.model import Spec
from envspec.workflow.keep import Upgrade
from envspec.workflow.solve import Solved

if TYPE_CHECKING:
    from envspec.lock.rules.case import Flaw

BuildResolver = Callable[[Sequence[BuildWanted]], Mapping[BuildWanted, tuple[BuildPin, ...]]]
"""Resolves what builds require."""


def with_build_environments(
    spec: Spec,
    solved: Sequence[Solved],
    old: Lock | None,
    upgrade: Upgrade,
    resolve: BuildResolver,
    flaws: Sequence[Flaw] = (),
) -> tuple[Solved, ...]:
    """Give solved targets with what each of their sources is built with. What the old lock has stays, but for that of
    packages that can't be right (`flaws`). Raises what `resolve` raises."""
    wrong = {(target, flaw.package) for flaw in flaws for target in flaw.targets}
    kept = {
        (one.name, pin): None if (one.name, pin.name) in wrong else _kept(old, one, pin, upgrade)
        for one in solved
        for pin in _built(spec, one)
    }
    of = {one.name: one for one in solved}
    missing = {(name, pin): _wanted(of[name], pin) for (name, pin), wheels in kept.items() if wheels is None}
    found = resolve(tuple(dict.fromkeys(missing.values())))
    made = {**kept, **{key: found.get(wanted) for key, wanted in missing.items()}}
    return tuple(
        replace(
            one,
            pip=tuple(
                replace(pin, built_with=made[one.name, pin]) if (one.name, pin) in made else pin for pin in one.pip
            ),
        )
        for one in solved
    )


def _built(spec: Spec, solved: Solved) -> Iterator[Pin]:
    """Yield the sources of a target that aren't built against its own packages."""
    against_lock = spec.terms_of(solved.name).built_against_lock
    return (pin for pin in solved.pip if not pin.is_wheel and pin.name not in against_lock)


def _kept(old: Lock | None, solved: Solved, pin: Pin, upgrade: Upgrade) -> tuple[BuildPin, ...] | None:
    """Find what the old lock built the same source with, for the same machine; None where that is to be resolved."""
    before = _before(old, solved, pin)
    if before is None or upgrade.everything or pin.name in upgrade.packages:
        return None
    return before.built_with


def _before(old: Lock | None, solved: Solved, pin: Pin) -> Pin | None:
    target = old.target(solved.name) if old else None
    before = target.pin(pin.name, "pip") if target else None
    if target is None or before is None:
        return None
    was, now = target.inputs, solved.prepared.inputs
    same = (was.platform, was.python, was.glibc) == (now.platform, now.python, now.glibc)
    return before if same and (before.artifact, before.git, before.url) == (pin.artifact, pin.git, pin.url) else None


def _wanted(solved: Solved, pin: Pin) -> BuildWanted:
    assert solved.request is not None  # it has a package
    prepared = solved.prepared
    # what a spec states of a source is there to spare a build
    stated = any(one.name == pin.name for one in prepared.inputs.metadata)
    runs = pin.name in prepared.shared.allow_source and not stated
    return BuildWanted(pin, solved.request, runs, build_bounds(solved.versions.get("torch")))
