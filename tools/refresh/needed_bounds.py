"""conda-forge's patches that hold on PyPI: the releases whose METADATA lacks a bound that could be kept there.

A bound that holds must not break a good lock. So each is asked, release by release: is the dependency one that METADATA
names, does METADATA admit what the bound leaves out, is there anything left to install on every Python, and was the
bound news when the release was made? What isn't sure is left out, and counted by its reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from envspec.facts.corrections import NO_CORRECTIONS, Corrections
from envspec.packages.edges import Markers
from envspec.packages.requirement import Clause, head_of, is_requirement, published_requirement
from tools.refresh.conda_patches import Patch
from tools.refresh.published import Index
from tools.refresh.releases import PYTHONS, DatedRelease, Place

if TYPE_CHECKING:
    from packaging.version import Version

GUESSES: Mapping[str, str] = {"numpy2_unknown_lower_bound.yaml": "the file itself says that it's a guess"}
"""Files whose bounds no one has proved: they cap whatever was there when they were written."""

COMPILED: frozenset[str] = frozenset({"numpy2_known_lower_bound.yaml"})
"""Files that say which version was the first to work, and not that the one before didn't. Of extension modules it
follows, for NumPy 2 loads none that was compiled before it; of other code it doesn't."""

FINE: Mapping[tuple[str, str], str] = {
    ("cartopy", "numpy"): "0.22.0 with NumPy 2.4.6 projects lines and points",
    ("contourpy", "numpy"): "1.1.0 with NumPy 2.4.6 draws lines and fills",
    ("numcodecs", "numpy"): "0.12.0 with NumPy 2.4.6 packs and unpacks numbers and texts",
    ("mkdocs", "click"): "1.6.1 with click 8.5.1 builds a site",
    ("sympy", "mpmath"): "1.12 with mpmath 1.4.1 passes 273 of 274 of its own tests of numbers, evalf and str",
}
"""Packages and dependencies that were run together, outside the bound, and work (linux-64, CPython 3.11 and 3.12)."""

_AFTERWARDS = timedelta(days=90)
"""A release that came so long after what an upper bound leaves out was made with that around."""

_BEFORE = timedelta(days=30)
"""A release that is so much older than the first version that a lower bound admits worked without it."""

_ASIDE = re.compile(
    r"all|bench(mark)?s?|build|checks?|ci|complete|dev(elop(er|ment)?)?|docs?|examples?|extras?|full|lint(ing)?"
    r"|notebooks?|quality|release|style|test(s|ing)?|tutorials?|typing"
)
"""Words in the names of extras that say nothing of what a package works with."""

_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


@dataclass(frozen=True)
class Needed:
    """The bounds that releases of a package need of a dependency.

    bounds    the bounds that a release needs
    covered   the bounds that are meant for a release and don't hurt it, whether it needs them or not
    pythons   the Pythons on which a release's bounds leave something to install
    without   those on which they'd leave nothing, now or when the dependency's next release comes
    files     where a bound comes from
    """

    package: str
    dependency: str
    bounds: Mapping[Version, frozenset[Clause]] = field(default_factory=dict)
    covered: Mapping[Version, frozenset[Clause]] = field(default_factory=dict)
    pythons: Mapping[Version, frozenset[str]] = field(default_factory=dict)
    without: Mapping[Version, frozenset[str]] = field(default_factory=dict)
    files: Mapping[Clause, frozenset[str]] = field(default_factory=dict)


class DependencyReleases:
    """The releases of a dependency, and what specifiers admit of them."""

    def __init__(self, releases: Iterable[DatedRelease]) -> None:
        self.releases = {release.version: release for release in releases}
        self._admitted: dict[str, frozenset[Version]] = {}
        self._installed: dict[Place, frozenset[Version]] = {}

    def admits(self, specifier: str) -> frozenset[Version]:
        """The releases that a specifier admits."""
        from packaging.specifiers import SpecifierSet

        if specifier not in self._admitted:
            self._admitted[specifier] = frozenset(SpecifierSet(specifier).filter(self.releases))
        return self._admitted[specifier]

    def installable(self, place: Place) -> frozenset[Version]:
        """The releases that have a wheel for a platform and a Python."""
        if place not in self._installed:
            found = frozenset(version for version, release in self.releases.items() if place in release.places)
            self._installed[place] = found
        return self._installed[place]


def needs_of(
    package: str,
    dependency: str,
    patches: Sequence[Patch],
    of: Callable[[str], Sequence[DatedRelease]],
    index: Index,
    proved: Corrections = NO_CORRECTIONS,
) -> tuple[Needed, tuple[tuple[Patch, str], ...]]:
    """Find what a package's releases need of a dependency, and why patches were left out. `of` lists a project's
    releases; what corrections that were `proved` say already isn't needed again. Raises IndexFailure.
    """
    bounds: dict[Version, frozenset[Clause]] = {}
    covered: dict[Version, frozenset[Clause]] = {}
    pythons: dict[Version, frozenset[str]] = {}
    without: dict[Version, frozenset[str]] = {}
    files: dict[Clause, frozenset[str]] = {}
    left_out: list[tuple[Patch, str]] = []
    there = DependencyReleases(of(dependency))
    for patch in patches:
        if reason := _at_once(package, dependency, patch.file):
            left_out.append((patch, reason))
            continue
        if not of(package) or not there.releases:
            left_out.append((patch, "PyPI doesn't have both"))
            continue
        reasons: Counter[str] = Counter()
        newest = of(package)[-1]
        for release in of(package):
            if not patch.when.admits(release.version, release.uploaded):
                continue
            judged = _NEWEST if release == newest else _judge(package, dependency, patch, release, there, index, proved)
            if isinstance(judged, str):
                reasons[judged] += 1
            if judged in _HARMLESS or not isinstance(judged, str):
                covered[release.version] = covered.get(release.version, frozenset()) | set(patch.bound)
            if not isinstance(judged, str):
                clauses, good, bad = judged
                bounds[release.version] = bounds.get(release.version, frozenset()) | clauses
                pythons[release.version] = pythons.get(release.version, good) & good
                without[release.version] = without.get(release.version, frozenset()) | bad
                files |= {clause: files.get(clause, frozenset()) | {patch.file} for clause in clauses}
                reasons["kept"] += 1
        if not reasons["kept"]:
            left_out.append((patch, _main(reasons)))
    return Needed(package, dependency, bounds, covered, pythons, without, files), tuple(left_out)


_NEWEST = "it's the newest release: a bound would leave no way on"
_SAID = "METADATA says it already"
_PROVED = "a correction that was proved says it already"
_NO_WHEEL = "no wheel, so no METADATA to compare with"
_OLD = "its wheels are for Pythons of the past"
_HARMLESS = (_SAID, _NO_WHEEL, _OLD)


def _at_once(package: str, dependency: str, file: str) -> str | None:
    return GUESSES.get(file) or ("it was tried, and works without" if (package, dependency) in FINE else None)


def _main(reasons: Counter[str]) -> str:
    """The reason that most releases have; one that tells nothing of METADATA counts only where there's no other."""
    told = Counter({reason: count for reason, count in reasons.items() if reason not in (_NEWEST, _NO_WHEEL, _OLD)})
    return next((reason for reason, _ in (told or reasons).most_common(1)), "PyPI has none of the versions")


def _judge(
    package: str,
    dependency: str,
    patch: Patch,
    release: DatedRelease,
    there: DependencyReleases,
    index: Index,
    proved: Corrections,
) -> tuple[frozenset[Clause], frozenset[str], frozenset[str]] | str:
    """Give what a release needs, and the Pythons on which it can and can't be kept; or why it needs nothing."""
    if release.wheel is None:
        return _NO_WHEEL
    if not release.places:
        return _OLD
    if patch.file in COMPILED and not release.extension:
        return "without an extension module, it may work with what it hasn't been tried with"
    if not release.pure and patch.when.first_builds:
        return "it concerns some builds of compiled code"
    published = index.requires_dist(package, release.wheel)
    said = _requirements_on(dependency, published)
    if not said:
        return "METADATA doesn't name the dependency"
    clauses = frozenset(clause for clause in patch.bound if _is_news(clause, release, said, there))
    if not clauses:
        return _SAID
    known = _requirements_on(dependency, (*published, *proved.bounds(package, str(release.version), published)))
    if not any(_is_news(clause, release, known, there) for clause in clauses):
        return _PROVED
    if reason := next((reason for clause in clauses if (reason := _doubt(clause, release, there))), None):
        return reason
    bound = there.admits(",".join(map("".join, sorted(clauses))))
    choices = [*_choices(release, said, there)]
    good = {place[1] for place, had in choices if had & bound}
    good -= {place[1] for place, had in choices if had and not had & bound}
    if not any(had - bound for place, had in choices if place[1] in good):
        return "nothing would be left to install"
    return clauses, frozenset(good), frozenset(place[1] for place, _ in choices) - good


def _requirements_on(dependency: str, lines: Iterable[str]) -> Mapping[str, str]:
    """Give METADATA's requirements on a dependency by Python: those without an extra, else those of extras."""
    about = [line for line in lines if is_requirement(line) and head_of(line).name == dependency]
    named = {extra for line in about for extra in _EXTRA.findall(line)}
    extras = {extra for extra in named if not any(map(_ASIDE.fullmatch, re.split(r"[-_.]", extra.lower())))}
    found = {}
    for python in PYTHONS:
        markers = Markers("linux-64", python)
        always = [line for line in about if markers.hold(line)]
        sometimes = always or [line for line in about if markers.hold(line, extras)]
        if sometimes:
            found[python] = ",".join(filter(None, (str(published_requirement(line).specifier) for line in sometimes)))
    return found


def _choices(
    release: DatedRelease, said: Mapping[str, str], there: DependencyReleases
) -> Iterable[tuple[Place, frozenset[Version]]]:
    """The dependency's releases that METADATA and wheels leave to choose from, wherever the release itself installs."""
    for place in sorted(release.places):
        if place[1] in said:
            yield place, there.installable(place) & there.admits(said[place[1]])


def _is_news(clause: Clause, release: DatedRelease, said: Mapping[str, str], there: DependencyReleases) -> bool:
    admitted = there.admits("".join(clause))
    return any(had - admitted for _, had in _choices(release, said, there))


def _doubt(clause: Clause, release: DatedRelease, there: DependencyReleases) -> str | None:
    """Compare the dates: what a bound leaves out or asks for, and the release."""
    admitted = there.admits("".join(clause))
    if not admitted:
        return "PyPI has none of the versions that the bound admits"
    operator = clause[0]
    if operator in ("<", "<=", "==", "~="):
        beyond = [version for version in there.releases if version > max(admitted)]
        first = there.releases[min(beyond)].uploaded if beyond else None
        if first and release.uploaded and release.uploaded > first + _AFTERWARDS:
            return "the release came long after what the bound leaves out"
    if operator in (">", ">=", "==", "~="):
        first = there.releases[min(admitted)].uploaded
        if first and release.uploaded and release.uploaded + _BEFORE < first:
            return "the release is older than what the bound asks for"
    return None
