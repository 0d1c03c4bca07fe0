"""The notices of a locking run: the rules' findings, corrections, oddities of the spec or the old lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import Infeasible, together
from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import nearest
from envspec.facts.corrections import (
    Correction,
    Corrections,
    admits,
    bounds_of_extras,
    has_common_version,
    implies,
    is_within,
    of_extra,
    sources_of,
)
from envspec.lock.model import LockedTarget, Pin
from envspec.packages.requirement import canonical_name, head_of, published_requirement
from envspec.rules.case import is_acceptable
from envspec.spec.model import Spec
from envspec.spec.way import Way

# The effects of corrections of published metadata on a solution, and the corrections that a solution breaks. Pure.


class Effect(Struct, frozen=True):
    """A correction's effect: "numpy<2 added", "transformers 4.49.0 locked"."""

    correction: Correction
    text: str

    @property
    def note(self) -> Finding:
        """The note on it, with the way to do without."""
        name = self.correction.name
        more = f"; `envspec explain {name}` has its source" if sources_of(self.correction) else ""
        remedy = f'to do without: without-corrections = ["{name}"] in [pip]{more}'
        return Finding("info", "correction", f"{self.text}, because {self.correction.reason}", remedy=remedy)


def broken_corrections(
    corrections: Corrections, pins: Iterable[Pin], versions: Mapping[str, str], off: Collection[str]
) -> tuple[Correction, ...]:
    """Find the corrections that a solution breaks: those of the tables, and those from the extras of its packages.

    `versions` are those of all packages, conda's included; `off` names extras' corrections that are switched off.
    """
    of_extras = (
        of_extra(pin.name, pin.version, bound)
        for pin in pins
        for bound in _bounds_of_extras(pin)
        if head_of(bound).name in versions and not admits(bound, versions[head_of(bound).name])
    )
    return (*corrections.violations(versions), *(row for row in of_extras if row.name not in off))


def _bounds_of_extras(pin: Pin) -> tuple[str, ...]:
    """Give what a pin's extras say that it works with."""
    return bounds_of_extras(pin.solver.metadata.requires_dist) if pin.solver.metadata else ()


class Said(Struct, frozen=True):
    """A solution's and its target's own bounds, without corrections, and the other releases on offer.

    bounds      specifiers by package, those of the spec and of published metadata
    newer       releases on offer that are newer than the pin, by package; none for a package of which that isn't known
    overridden  packages that only the spec's override bounds
    firm        the same specifiers without those of packages that could be another release: that this one is there may
                follow from a correction itself
    """

    bounds: Mapping[str, Sequence[str]]
    newer: Mapping[str, Sequence[str]]
    overridden: Collection[str] = ()
    firm: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def rules_out(self, requirement: str) -> bool:
        """Return whether a requirement rules out something that the target could have without it: a newer release that
        nothing firm rules out, or no such package at all."""
        name, bounds = head_of(requirement).name, self.bounds.get(head_of(requirement).name)
        if bounds is None or name in self.overridden:
            return bounds is None
        if name not in self.newer:
            return not implies(bounds, requirement)
        offered = (version for version in self.newer[name] if is_within(version, self.firm.get(name, ())))
        return any(not admits(requirement, version) for version in offered)

    def could_be(self, name: str, versions: str, than: str) -> bool:
        """Return whether one of `versions` is a release newer than the package's pin that the target could have."""
        if name not in self.newer:
            return has_common_version(versions, (*self.bounds.get(name, ()), f">{than.partition('+')[0]}"))
        admitted = (version for version in self.newer[name] if is_within(version, self.bounds.get(name, ())))
        return any(is_within(version, (versions,)) for version in admitted)


def collect_bounds(
    pins: Sequence[Pin], requirements: Iterable[str], constraints: Iterable[str], overrides: Sequence[str]
) -> Said:
    """Collect the bounds of the spec and of the pins' published metadata. An overridden package has the bounds of its
    override and of constraints alone."""
    overridden = {head_of(line).name for line in overrides}

    def bounds(chosen: Iterable[Pin]) -> dict[str, list[str]]:
        published = (line for pin in chosen for line in pin.dependencies if line not in pin.solver.added)
        required = (line for line in (*requirements, *published) if head_of(line).name not in overridden)
        by_name: dict[str, list[str]] = {}
        for line in (*required, *constraints, *overrides):
            by_name.setdefault(head_of(line).name, []).append(str(published_requirement(line).specifier))
        return by_name

    requirements, constraints = tuple(requirements), tuple(constraints)
    newer = {pin.name: pin.solver.newer for pin in pins if pin.solver.newer is not None}
    return Said(bounds(pins), newer, overridden, bounds(pin for pin in pins if pin.solver.sole))


def effects(
    corrections: Corrections, pins: Sequence[Pin], versions: Mapping[str, str], stated: Said
) -> tuple[Effect, ...]:
    """List the corrections that bound a solution: each of them rules out what everything else admits."""
    return tuple(effect for pin in pins for effect in _effects(corrections, pin, versions, stated))


def _effects(corrections: Corrections, pin: Pin, versions: Mapping[str, str], stated: Said) -> Iterator[Effect]:
    for row in corrections.about(pin.name):
        if row.kind == "requirement" and row.concerns(pin.name, pin.version):
            if row.requirement in pin.solver.added and stated.rules_out(row.requirement):
                yield Effect(row, f"{row.requirement} added")
        elif row.bounded not in versions:
            continue
        elif row.kind == "extra":
            bound = next((bound for bound in _bounds_of_extras(pin) if head_of(bound).name == row.bounded), None)
            yield Effect(row, f"{bound} added" if bound and row.seen == pin.version else _lock_phrase(pin))
        elif row.concerns(pin.name, pin.version):
            if stated.rules_out(row.requirement):
                yield Effect(row, f"{row.requirement} added")
        elif not admits(row.requirement, versions[row.bounded]) and stated.could_be(
            pin.name, row.versions, pin.version
        ):
            # a newer version of it was given up
            yield Effect(row, _lock_phrase(pin))


def _lock_phrase(pin: Pin) -> str:
    return f"{pin.name} {pin.version} locked"


def merge_findings(by_target: Iterable[tuple[str, Sequence[Finding]]]) -> tuple[Finding, ...]:
    """Give the findings of targets, by name: each once, with its targets."""
    return merge_targets(replace(finding, targets=(name,)) for name, findings in by_target for finding in findings)


def notes_among(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Give findings that stop nothing. Raises Infeasible for one that does, InfeasibleTargets for several."""
    notes = tuple(findings)
    if refused := refusals(notes):
        raise together(refused)
    return notes


def refusals(findings: Iterable[Finding]) -> tuple[Infeasible, ...]:
    """Give the errors among findings."""
    return tuple(_refusal(finding) for finding in findings if finding.severity == "error")


def _refusal(finding: Finding) -> Infeasible:
    error = Infeasible(finding.text, hint=finding.remedy, place=finding.place)
    known = (Way(accept=((finding.code, finding.package),)),) if is_acceptable(finding.code) else ()
    error.code, error.targets, error.ways = finding.code, finding.targets, (*finding.ways, *known)
    return error.with_subjects(*filter(None, [finding.package]))


def flaw_warnings(flaws: Iterable[Finding]) -> Iterator[Finding]:
    """Warn of pins of the old lock that can't be right, and of those on which today's facts differ."""
    for flaw in flaws:
        whose = "the lock can't be right: " if flaw.severity == "error" else ""
        yield Finding("warning", flaw.code, f"{whose}{flaw.text}; envspec resolves this again")


def unused_sources(spec: Spec, locked: Iterable[LockedTarget]) -> Iterator[Finding]:
    """Warn of a source for a name that no target has: a misspelt name leaves the intended package to PyPI."""
    used = _names(locked)
    places = {
        canonical_name(key.removeprefix("pip.sources.")): place
        for key, place in spec.places.items()
        if key.startswith("pip.sources.")
    }
    for name, index in sorted(spec.pip.sources.items()):
        if name not in used:
            yield Finding(
                "warning",
                "unused-source",
                f"[pip] sources names {name}, which no target has: a misspelt name would come from PyPI",
                places.get(name),
                f"write the name as the dependency has it, or remove it if no package has to come from {index}",
            )


def misspelt_names(spec: Spec, locked: Iterable[LockedTarget]) -> Iterator[Finding]:
    """Warn of a term of [pip] on a package that no target has, where a target has one with a name much like it. A list
    that several specs share may name more than one of them has."""
    used = _names(locked)
    for key, names in _package_keys(spec):
        for name in sorted(set(names) - used):
            meant = nearest(name, used, alike=0.8)
            if meant and meant not in names:
                yield Finding(
                    "warning",
                    "misspelt",
                    f"[pip] {key} names {name}, which no target has",
                    spec.places.get(f"pip.{key}.{name}") or spec.places.get(f"pip.{key}"),
                    f"did you mean {meant}?",
                )


def _package_keys(spec: Spec) -> Iterable[tuple[str, Collection[str]]]:
    """Give the keys of [pip] that speak of packages without asking for them, and the packages' names."""
    terms = spec.pip.terms
    return (
        ("allow-source", spec.pip.allow_source),
        ("metadata", [entry.name for entry in terms.metadata]),
        ("build-dependencies", terms.build_dependencies),
        ("no-build-isolation", terms.no_build_isolation),
    )


def _names(locked: Iterable[LockedTarget]) -> set[str]:
    return {canonical_name(name) for target in locked for pin in target.pins for name in (pin.name, *pin.provides)}
