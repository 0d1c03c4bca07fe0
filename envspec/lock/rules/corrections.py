"""The rule for corrections from wheels: a reading can give each of a wheel that the lock pins, and it holds beside
that. And the edges of sources whose dependencies the spec states: its word, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts.corrections import corrections
from envspec.facts.wheel_bounds import WHEEL_BOUNDS, WheelBound
from envspec.lock.graph import Node
from envspec.lock.model import Lock, LockedCorrection, LockedTarget, Pin
from envspec.lock.rules.case import LockedCase
from envspec.packages.edges import Markers
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.packages.stated import find_metadata


def flaws(lock: Lock) -> Iterator[Finding]:
    """Yield the corrections that no reading of a wheel of the lock gives, and the pins that one of them rules out."""
    every = tuple(target.name for target in lock)
    for one in lock.corrections:
        bound = WHEEL_BOUNDS.get(one.constraint)
        if bound is None:
            known = " and ".join(WHEEL_BOUNDS)
            sentence = f"a correction bounds {one.constraint}, and reading a wheel gives nothing but {known}"
            yield Finding("error", "correction-unfounded", sentence, targets=every)
            continue
        beside = [target for target in lock if (pin := target.pin(one.package, "pip")) and _is_of(one, pin, bound)]
        if not beside:
            sentence = f"a correction ({one.constraint}) is of {one.file}, which isn't pinned, or can't say that"
            yield Finding("error", "correction-unfounded", sentence, targets=every)
        for target in beside:
            yield from _breaks(one, bound, target)


def _is_of(one: LockedCorrection, pin: Pin, bound: WheelBound) -> bool:
    return one.is_of(pin) and bound.could_say(pin.name, one.file, pin.dependencies)


def _breaks(one: LockedCorrection, bound: WheelBound, target: LockedTarget) -> Iterator[Finding]:
    constraint = published_requirement(one.constraint)
    name = canonical_name(constraint.name)
    needs = f"{one.package} {one.version} needs {one.constraint} ({one.reason}), but"
    pins = [pin for pin in target.pins if name in ((pin.name,) if pin.kind == "pip" else pin.provides)]
    if not pins and bound.kind == "requirement":
        yield Finding(
            "error", "correction-broken", f"{needs} {name} isn't pinned", targets=(target.name,), package=one.package
        )
    for pin in pins:
        if not constraint.specifier.contains(pin.version, prereleases=True):
            yield Finding(
                "error",
                "correction-broken",
                f"{needs} {pin.name} {pin.version} is pinned",
                targets=(target.name,),
                package=name,
            )


def wrong_edges(case: LockedCase) -> Iterator[Finding]:
    """Yield the sources whose edges aren't those that the spec states of them."""
    metadata = case.target.inputs.metadata
    if not metadata:
        return
    markers = Markers(case.target.inputs.platform, case.target.inputs.full_python)
    for pin in case.pins("pip"):
        stated = None if pin.is_wheel else find_metadata(metadata, pin.name, pin.version)
        if stated is None:
            continue
        extras = case.graph.extras.get(Node("pip", pin.name), frozenset())
        right = {str(published_requirement(line)) for line in stated.dependencies if markers.hold(line, extras)}
        added = set(corrections().on(markers).missing_requirements(pin.name, pin.version, stated.dependencies))
        edges = set(pin.dependencies)
        if not right <= edges <= right | added:
            said = ", ".join(sorted(right)) or "nothing"
            found = ", ".join(pin.dependencies) or "nothing"
            yield case.flaw(
                "wrong-dependencies", pin.name, f"the spec states that {pin.name} requires {said}, not {found}"
            )
