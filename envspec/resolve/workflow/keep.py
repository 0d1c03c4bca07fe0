"""The pins of an old lock that stay where they still fit: resolvers prefer their versions, builds and commits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from envspec.base.finding import Finding
from envspec.facts.wheel_bounds import WHEEL_BOUNDS
from envspec.lock.model import Lock, LockedCorrection, LockedTarget, Pin
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.resolve.pip.request import Preferences

_STAYS = frozenset({"no-build-environment"})
"""What can't be right beside a package that can: its version stays."""


class Upgrade(Struct, frozen=True):
    """The packages of an old lock whose versions may change: all, or the named ones."""

    everything: bool = False
    packages: frozenset[str] = frozenset()


class Kept(Struct, frozen=True):
    """The preferences of each half, by the old lock's targets: a new target takes those of another one. `read` are the
    corrections that were read from wheels, each with the pin of that wheel: a wheel confirms them before they count."""

    pip: Mapping[str, Preferences] = field(default_factory=dict)
    conda: Mapping[str, Preferences] = field(default_factory=dict)
    read: Mapping[str, tuple[tuple[LockedCorrection, Pin], ...]] = field(default_factory=dict)


def preserve(old: Lock | None, upgrade: Upgrade, flaws: Sequence[Finding] = ()) -> Kept:
    """Collect the pins that stay of an old lock, without the packages that can't be right (`flaws`)."""
    if old is None:
        return Kept()
    if upgrade.everything:
        return Kept(pip={target.name: Preferences(last=_versions(target)) for target in old})
    moving = {target.name: _moving(target, upgrade, flaws) for target in old}
    return Kept(
        pip={target.name: preferences_of(target).without(moving[target.name]) for target in old},
        conda={target.name: _conda(target, moving[target.name]) for target in old},
        read={target.name: rows for target in old if (rows := tuple(_read(old, target)))},
    )


def _read(old: Lock, target: LockedTarget) -> Iterator[tuple[LockedCorrection, Pin]]:
    for correction in old.corrections:
        pin = target.pin(correction.package, "pip")
        if pin is not None and correction.is_of(pin) and correction.constraint in WHEEL_BOUNDS:
            yield correction, pin


def _moving(target: LockedTarget, upgrade: Upgrade, flaws: Sequence[Finding]) -> frozenset[str]:
    """List the packages of a target that don't stay: those to upgrade, and those that can't be right."""
    wrong = {flaw.package for flaw in flaws if flaw.package and target.name in flaw.targets and flaw.code not in _STAYS}
    return frozenset(canonical_name(name) for name in {*upgrade.packages, *wrong})


def preferences_of(target: LockedTarget) -> Preferences:
    """Collect the versions, commits and variants of a target's pip half, to keep them all."""
    versions = _versions(target)
    variants = {
        pin.name: (pin.version, pin.artifact.variant.label)
        for pin in target.pins
        if pin.artifact is not None and pin.artifact.variant is not None
    }
    return Preferences(versions, _commits(target), variants, versions)


def _versions(target: LockedTarget) -> dict[str, str]:
    return {pin.name: pin.version for pin in target.pins if pin.kind == "pip" and not pin.git}


def _commits(target: LockedTarget) -> dict[str, str]:
    """Collect the commits of a target's git requirements, by requirement: its URL and revision are part of it."""
    commits = {pin.name: pin.git.commit for pin in target.pins if pin.git}
    lines = (*target.inputs.requirements, *(text for text, _ in target.inputs.overrides))
    return {text: commits[name] for text in lines if (name := requirement_name(text)) in commits}


def _conda(target: LockedTarget, moving: frozenset[str]) -> Preferences:
    return Preferences(
        {
            pin.name: f"{pin.version} {pin.build or ''}".rstrip()
            for pin in target.pins
            if pin.kind == "conda" and moving.isdisjoint({canonical_name(pin.name), *pin.provides})
        }
    )
