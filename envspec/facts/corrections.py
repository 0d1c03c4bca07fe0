"""Corrections of published metadata: constraints that make a lock which resolves also work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from envspec.facts import torch_builds
from envspec.facts.tables import read, words
from envspec.packages.requirement import parse_requirement

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet


@dataclass(frozen=True)
class Correction:
    """A constraint (PEP 508) that `package` in these `versions` (a specifier) also needs. `name` switches it off."""

    name: str
    package: str
    versions: str
    constraint: str
    reason: str
    sources: tuple[str, ...]


@cache
def corrections() -> tuple[Correction, ...]:
    """Every correction in the tables."""
    return tuple(
        Correction(
            row["name"],
            row["package"],
            row["versions"],
            row["constraint"],
            row["reason"],
            words(row["source"]),
        )
        for row in read("corrections")["corrections"]
    )


def corrections_for(requirements: Iterable[str], off: Iterable[str] = ()) -> tuple[Correction, ...]:
    """Find the corrections that hold whatever the resolver picks: each version that a requirement admits needs them.

    `requirements` are PEP 508 texts. One that admits versions without the fault applies no correction here;
    `corrections_broken_by` judges it after resolving. `off` holds the names of corrections that are switched off.
    """
    from packaging.utils import canonicalize_name

    asked: dict[str, list[SpecifierSet]] = {}
    for text in requirements:
        requirement = parse_requirement(text)
        asked.setdefault(canonicalize_name(requirement.name), []).append(requirement.specifier)
    switched_off = set(off)
    return tuple(
        correction
        for correction in corrections()
        if correction.name not in switched_off
        and any(_always(correction, specifier) for specifier in asked.get(correction.package, ()))
    )


def corrections_broken_by(pins: Mapping[str, str], off: Iterable[str] = ()) -> tuple[Correction, ...]:
    """Find the corrections that exact pins (normalised name -> version) violate. The caller solves again with their
    constraints."""
    from packaging.specifiers import SpecifierSet

    switched_off = set(off)
    broken = []
    for correction in corrections():
        version = pins.get(correction.package)
        if version is None or correction.name in switched_off:
            continue
        constraint = parse_requirement(correction.constraint)
        other = pins.get(constraint.name)
        affected = SpecifierSet(correction.versions).contains(version, prereleases=True)
        if affected and other is not None and not constraint.specifier.contains(other, prereleases=True):
            broken.append(correction)
    return tuple(broken)


def _always(correction: Correction, specifier: SpecifierSet) -> bool:
    from packaging.specifiers import SpecifierSet

    wrong = SpecifierSet(correction.versions)
    candidates = {s.version for s in specifier if s.operator == "==" and not s.version.endswith(".*")}
    if not candidates and correction.package == "torch" and len(specifier):
        candidates = set(specifier.filter(release.version for release in torch_builds.releases()))
    return bool(candidates) and all(wrong.contains(version, prereleases=True) for version in candidates)
