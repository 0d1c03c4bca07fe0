"""The build environments of a lock's sources: those of the old lock that still hold, and new ones for the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from envspec.base.errors import SpecError
from envspec.base.finding import Finding
from envspec.facts.torch_builds import build_bounds
from envspec.lock.model import BuildPin, Lock, Pin
from envspec.lock.rules.builds import NUMPY, bounds_of, bounds_on_numpy, is_shared, unlike_target
from envspec.resolve.pip.build_environment import BuildWanted, against_lock
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.solve import Solved
from envspec.spec.model import Spec


def with_build_environments(
    spec: Spec,
    solved: Sequence[Solved],
    old: Lock | None,
    upgrade: Upgrade,
    resolve: Callable[[Sequence[BuildWanted]], Mapping[BuildWanted, tuple[BuildPin, ...]]],
    flaws: Sequence[Finding] = (),
) -> tuple[Solved, ...]:
    """Give solved targets with what each of their sources is built with. What the old lock has stays, but for that of
    packages that can't be right (`flaws`). Raises what `resolve` raises."""
    wrong = {(target, flaw.package) for flaw in flaws for target in flaw.targets}
    kept = {
        (one.name, pin): None if (one.name, pin.name) in wrong else _old_build(old, one, pin, upgrade)
        for one in solved
        for pin in _isolated_sources(spec, one)
    }
    of = {one.name: one for one in solved}
    missing = {(name, pin): _build_request(of[name], pin) for (name, pin), wheels in kept.items() if wheels is None}
    found = resolve(tuple(dict.fromkeys(missing.values())))
    for wanted, wheels in found.items():
        _refuse_unlike(wanted, wheels)
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


def _isolated_sources(spec: Spec, solved: Solved) -> Iterator[Pin]:
    """Yield the sources of a target that aren't built against its own packages."""
    against_lock = spec.terms_of(solved.name).built_against_lock
    return (pin for pin in solved.pip if not pin.is_wheel and pin.name not in against_lock)


def _old_build(old: Lock | None, solved: Solved, pin: Pin, upgrade: Upgrade) -> tuple[BuildPin, ...] | None:
    """Find what the old lock built the same source with, for the same machine; None where that is to be resolved."""
    before = _before(old, solved, pin)
    if before is None or before.built_with is None or upgrade.everything or pin.name in upgrade.packages:
        return None
    pins, cuda = {one.name: one for one in solved.pins}, solved.prepared.inputs.cuda
    return None if any(unlike_target(one, pins, cuda) for one in before.built_with) else before.built_with


def _before(old: Lock | None, solved: Solved, pin: Pin) -> Pin | None:
    target = old.target(solved.name) if old else None
    before = target.pin(pin.name, "pip") if target else None
    if target is None or before is None:
        return None
    was, now = target.inputs, solved.prepared.inputs
    same = (was.platform, was.python, was.glibc) == (now.platform, now.python, now.glibc)
    return before if same and (before.artifact, before.git, before.url) == (pin.artifact, pin.git, pin.url) else None


def _refuse_unlike(wanted: BuildWanted, wheels: Sequence[BuildPin]) -> None:
    """Raise SpecError where a build would be another than the target's: what the judge of locks refuses."""
    pins = {one.name: one for one in wanted.shared}
    for one in wheels:
        if why := unlike_target(one, pins, wanted.request.cuda):
            said = f"the build of {wanted.pin.name} {wanted.pin.version} requires {one.name} {one.version}, but {why}"
            raise SpecError(said, hint=against_lock(wanted.pin.name)).concerning(wanted.pin.name)


def _build_request(solved: Solved, pin: Pin) -> BuildWanted:
    assert solved.request is not None  # it has a package
    prepared = solved.prepared
    # what a spec states of a source is there to spare a build
    stated = any(one.name == pin.name for one in prepared.inputs.metadata)
    runs = pin.name in prepared.shared.allow_source and not stated
    shared = tuple(one for one in solved.pins if is_shared(one))
    numpy = next((bounds_on_numpy(one.version) for one in shared if one.name == NUMPY), ())
    bounds = (*build_bounds(solved.versions.get("torch")), *bounds_of(shared))
    return BuildWanted(pin, solved.request, runs, bounds, numpy, shared)
