"""The effects of corrections of published metadata on a solution, and the corrections that a solution breaks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from envspec.facts.corrections import Correction, Corrections, admits, has_common_version, implies, is_within, of_extra
from envspec.lock.model import Pin
from envspec.packages.requirement import head_of, published_requirement


@dataclass(frozen=True)
class Effect:
    """A correction's effect: "numpy<2 added", "transformers 4.49.0 locked"."""

    correction: Correction
    text: str


def broken_corrections(
    corrections: Corrections, pins: Iterable[Pin], versions: Mapping[str, str], off: Collection[str]
) -> tuple[Correction, ...]:
    """Find the corrections that a solution breaks: those of the tables, and those that extras of its packages say.

    `versions` are those of all packages, conda's included; `off` names extras' corrections that are switched off.
    """
    of_extras = (
        of_extra(pin.name, pin.version, bound)
        for pin in pins
        for bound in pin.works_with
        if head_of(bound).name in versions and not admits(bound, versions[head_of(bound).name])
    )
    return (*corrections.violations(versions), *(one for one in of_extras if one.name not in off))


@dataclass(frozen=True)
class Said:
    """A solution's and its target's own bounds, without corrections, and the other releases on offer.

    bounds      specifiers by package, those of the spec and of published metadata
    newer       releases on offer that are newer than the pin, by package; none for a package of which that isn't known
    overridden  packages of which the spec's override alone says what holds
    firm        the same specifiers without those of packages that could be another release: that this one is there may
                follow from a correction itself
    """

    bounds: Mapping[str, Sequence[str]]
    newer: Mapping[str, Sequence[str]]
    overridden: Collection[str] = ()
    firm: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def rules_out(self, requirement: str) -> bool:
        """Say whether a requirement rules out what could be had without it: a newer release that nothing firm rules
        out, or doing without."""
        name, bounds = head_of(requirement).name, self.bounds.get(head_of(requirement).name)
        if bounds is None or name in self.overridden:
            return bounds is None
        if name not in self.newer:
            return not implies(bounds, requirement)
        offered = (version for version in self.newer[name] if is_within(version, self.firm.get(name, ())))
        return any(not admits(requirement, version) for version in offered)

    def could_be(self, name: str, versions: str, than: str) -> bool:
        """Say whether a newer release of a package (than its pin's) could be had that is one of `versions`."""
        if name not in self.newer:
            return has_common_version(versions, (*self.bounds.get(name, ()), f">{than.partition('+')[0]}"))
        return any(is_within(version, (versions,)) for version in self.admissible(name))

    def admissible(self, name: str) -> Iterator[str]:
        """List the newer releases of a package that all bounds admit."""
        return (version for version in self.newer[name] if is_within(version, self.bounds.get(name, ())))


def collect_bounds(
    pins: Sequence[Pin], requirements: Iterable[str], constraints: Iterable[str], overrides: Sequence[str]
) -> Said:
    """Collect what published metadata of the pins says, and the spec. An overridden package has the bounds of its
    override and of constraints alone."""
    overridden = {head_of(line).name for line in overrides}

    def bounds(several: Iterable[Pin]) -> dict[str, list[str]]:
        published = (line for pin in several for line in pin.dependencies if line not in pin.added)
        required = (line for line in (*requirements, *published) if head_of(line).name not in overridden)
        found: dict[str, list[str]] = {}
        for line in (*required, *constraints, *overrides):
            found.setdefault(head_of(line).name, []).append(str(published_requirement(line).specifier))
        return found

    requirements, constraints = tuple(requirements), tuple(constraints)
    newer = {pin.name: pin.newer for pin in pins if pin.newer is not None}
    return Said(bounds(pins), newer, overridden, bounds(pin for pin in pins if pin.sole))


def effects(
    corrections: Corrections, pins: Sequence[Pin], versions: Mapping[str, str], said: Said
) -> tuple[Effect, ...]:
    """List the corrections that bound a solution: each of them rules out what everything else admits."""
    return tuple(effect for pin in pins for effect in _effects(corrections, pin, versions, said))


def _effects(corrections: Corrections, pin: Pin, versions: Mapping[str, str], said: Said) -> Iterator[Effect]:
    for one in corrections.about(pin.name):
        if one.kind == "requirement" and one.concerns(pin.name, pin.version):
            if one.requirement in pin.added and said.rules_out(one.requirement):
                yield Effect(one, f"{one.requirement} added")
        elif one.bounded not in versions:
            continue
        elif one.kind == "extra":
            bound = next((bound for bound in pin.works_with if head_of(bound).name == one.bounded), None)
            yield Effect(one, f"{bound} added" if bound and one.seen == pin.version else _lock_phrase(pin))
        elif one.concerns(pin.name, pin.version):
            if said.rules_out(one.requirement):
                yield Effect(one, f"{one.requirement} added")
        elif not admits(one.requirement, versions[one.bounded]) and said.could_be(pin.name, one.versions, pin.version):
            # a newer version of it was given up
            yield Effect(one, _lock_phrase(pin))


def _lock_phrase(pin: Pin) -> str:
    return f"{pin.name} {pin.version} locked"
