"""Checks that uv's answer is the newest that the requirements allow: it finds pre-releases that nothing asks for, and
releases skipped because none of their wheels fits. Pure: pages come in through a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.facts.frameworks import LEADING
from envspec.net.index_proxy.releases import Release, version_of
from envspec.packages.conflict import Conflict
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import is_for_platform, takes_python, wheel_fits
from envspec.resolve.pip.edges import requirement_of
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found
from envspec.resolve.uv.conflict import range_of
from envspec.spec.newer import moment_of
from envspec.spec.way import Way

_MANYLINUX = re.compile(r"manylinux_2_(\d{1,4})_")
_OF_PYTHON = re.compile(r"-cp3(\d{1,2})-")

Releases = Callable[[str], Sequence[Release]]
"""A package's releases on the index that it comes from, newest first; none without a page."""

Fitting = Callable[[str], Iterator[Release]]
"""A package's releases that fit a target, newest first, each judged when it is reached: most callers need the first."""


_specifiers = lru_cache(maxsize=1 << 10)(SpecifierSet)


class Asks(Struct, frozen=True):
    """The bounds of all requirements of a solution on one package's version."""

    bounds: str
    names_pre_release: bool

    @property
    def specifier(self) -> SpecifierSet:
        return _specifiers(self.bounds)


def asks_of(request: Request, edges: Mapping[str, Sequence[str]]) -> dict[str, Asks]:
    """Collect the bounds of the spec, its constraints and the packages of a solution on each package. `edges` are the
    packages' requirements that hold in the target."""
    specifiers: dict[str, list[SpecifierSet]] = {}
    published = (line for edge in edges.values() for line in edge)
    overridden = set(map(requirement_name, request.overrides))
    lines = (
        *(line for line in (*request.requirements, *published) if requirement_name(line) not in overridden),
        *request.constraints,
        *request.overrides,
    )
    for line in dict.fromkeys(lines):
        requirement = requirement_of(line)
        specifiers.setdefault(canonical_name(requirement.name), []).append(requirement.specifier)
    return {
        name: Asks(",".join(filter(None, map(str, group))), any(specifier.prereleases for specifier in group))
        for name, group in specifiers.items()
    }


@lru_cache(maxsize=16)
def own_asks(request: Request) -> Mapping[str, Asks]:
    """Collect the bounds of the spec and its constraints alone. Cached: a judge of single packages asks again and
    again."""
    return asks_of(request, {})


def has_pre_release(packages: Iterable[Found], pinned: Mapping[str, str]) -> bool:
    """Return whether a solution has a pre-release that wasn't in the old lock."""
    return any(_is_pre_release(package, pinned) for package in packages)


def stray_pre_releases(
    packages: Iterable[Found], request: Request, asks: Mapping[str, Asks], pinned: Mapping[str, str], releases: Releases
) -> tuple[str, ...]:
    """Find packages with a pre-release that nothing asks for: no requirement names one, and the index has a final
    release that all requirements admit, or had one that envspec itself gave up. `pinned` are versions that were judged
    when they were chosen."""
    return tuple(
        package.name
        for package in packages
        if _is_pre_release(package, pinned)
        and not (asks.get(package.name) and asks[package.name].names_pre_release)
        and (
            package.name in request.final
            or any(
                suits_target(release, request, package.name, asks.get(package.name))
                for release in releases(package.name)
            )
        )
    )


def _is_pre_release(package: Found, pinned: Mapping[str, str]) -> bool:
    version = version_of(package.version or "")
    return (
        bool(package.files)
        and version is not None
        and version.is_prerelease
        and pinned.get(package.name) != package.version
    )


def skipped_releases(package: Found, request: Request, releases: Releases) -> Iterator[Release]:
    """Find the final releases that are newer than a package of a solution, whatever is required of them, and have
    wheels, of which none fits the target."""
    for release in newer_than(releases(package.name), version_of(package.version or "")):
        if suits_target(release, request, package.name, None) and is_skipped(release, request, package.name):
            yield release


def fitting_releases(name: str, request: Request, releases: Releases) -> Iterator[Release]:
    """Yield the final releases that the spec admits and that fit the target, newest first, without local parts."""
    alone = own_asks(request).get(name)
    fitting = (release for release in releases(name) if suits_target(release, request, name, alone))
    return _public(candidate for candidate in fitting if not is_skipped(candidate, request, name))


def admitted_releases(name: str, request: Request, releases: Releases) -> tuple[Release, ...]:
    """List the final releases that the spec, its date and the platform admit, newest first, whatever Python and glibc
    they want, without local parts."""
    alone = own_asks(request).get(name)
    admitted = (release for release in releases(name) if _suits_any_python(release, request, name, alone))
    return tuple(
        _public(
            release
            for release in admitted
            if not release.wheels
            or release.source
            or any(is_for_platform(file, request.platform) for file in release.wheels)
        )
    )


def _public(releases: Iterable[Release]) -> Iterator[Release]:
    versions = set[str]()
    for release in releases:
        version = release.version.partition("+")[0]
        if version not in versions:
            versions.add(version)
            yield release if version == release.version else replace(release, version=version)


_YEAR = 365
"""Days that make a release stand behind another one."""
_FEATURES = 3
"""Feature releases that make a framework's."""


def is_behind(release: Release, than: Release, name: str, page: Iterable[Release]) -> bool:
    """Return whether a release is a year behind another one, or, of a framework, three feature releases of its `page`.
    A page without times counts no years."""
    own, newer = version_of(release.version), version_of(than.version)
    if own is None or newer is None or own >= newer:
        return False
    first, last = moment_of(release.uploaded), moment_of(than.uploaded)
    if first and last and (last - first).days >= _YEAR:
        return True
    if name not in LEADING:
        return False
    between = (version for candidate in page if (version := version_of(candidate.version)) and own < version <= newer)
    features = {(version.epoch, *version.release[:2]) for version in between} - {(own.epoch, *own.release[:2])}
    return len(features) >= _FEATURES


def newer_than(releases: Sequence[Release], than: Version | None) -> Iterator[Release]:
    """List the releases of a page that are newer than a version, newest first."""
    for release in releases:
        version = version_of(release.version)
        if version is None or (than is not None and version <= than):
            return
        yield release


def newer(package: Found, request: Request, releases: Releases) -> tuple[str, ...]:
    """List the final releases that are newer than a package of a solution and install on the target, whatever is
    required of them."""
    taken = version_of(package.version or "")
    if not package.files or taken is None:
        return ()
    return tuple(
        release.version
        for release in newer_than(releases(package.name), taken)
        if suits_target(release, request, package.name, None) and not is_skipped(release, request, package.name)
    )


def is_sole(package: Found, request: Request, releases: Releases) -> bool:
    """Return whether no other release of a package that the spec admits installs on the target."""
    asks, taken = own_asks(request).get(package.name), version_of(package.version or "")
    return not any(
        version_of(release.version) != taken and suits_target(release, request, package.name, asks)
        for release in releases(package.name)
    )


def is_skipped(release: Release, request: Request, name: str) -> bool:
    """Return whether a release has wheels, none of which fits, and may not be built."""
    fits = not release.unsuited and wheels_fit(release.wheels, request)
    return bool(release.wheels) and name not in request.allow_source and not fits


def suits_target(release: Release, request: Request, name: str, asks: Asks | None) -> bool:
    """Return whether a final release suits this target's Python, date and requirements."""
    takes = takes_python(release.requires_python or "", request.full_python)
    return takes and _suits_any_python(release, request, name, asks)


def _suits_any_python(release: Release, request: Request, name: str, asks: Asks | None) -> bool:
    version = version_of(release.version)
    if version is None or version.is_prerelease or release.yanked or not release.is_before(request.not_after(name)):
        return False
    return asks is None or _contains(asks.bounds, version)


@lru_cache(maxsize=1 << 14)
def _contains(bounds: str, version: Version) -> bool:
    """Return whether bounds admit a version: most targets of a spec ask the same of the same releases."""
    return _specifiers(bounds).contains(version, prereleases=True)


def needed_glibc(wheels: Sequence[str], request: Request) -> str | None:
    """Find the oldest glibc, newer than a target's, with which one of some wheels fits; None where none does."""
    own = int((request.glibc or "2.28").split(".")[1])
    minors = {int(minor) for file in wheels for minor in _MANYLINUX.findall(file)}
    versions = (f"2.{minor}" for minor in sorted(minors) if minor > own)
    return next((glibc for glibc in versions if wheels_fit(wheels, replace(request, glibc=glibc))), None)


def needed_python(wheels: Sequence[str], request: Request) -> str | None:
    """Find the Python nearest to a target's, an older one first, with which one of some wheels fits; None where none
    does."""
    own = int(request.python.split(".")[1])
    minors = {int(minor) for file in wheels for minor in _OF_PYTHON.findall(file)} - {own}
    pythons = (f"3.{minor}" for minor in sorted(minors, key=lambda minor: (minor > own, abs(minor - own))))
    return next((python for python in pythons if wheels_fit(wheels, replace(request, python=python))), None)


def newer_glibc(names: Iterable[str], request: Request, releases: Releases) -> Iterator[Way]:
    """Name the glibc that packages' newest releases have wheels for where the target's is too old for them."""
    alone = own_asks(request)
    for name in sorted(names):
        for release in releases(name):
            if suits_target(release, request, name, alone.get(name)) and is_skipped(release, request, name):
                if glibc := needed_glibc(release.wheels, request):
                    yield Way(glibc=glibc, note=f"{name} {release.version} has wheels for glibc {glibc} and later")
                break


def first_day(conflict: Conflict, request: Request, releases_of: Callable[[Request], Releases]) -> Iterator[Way]:
    """Name the day from which on the index has a release that fits of each package that a conflict finds none of, for
    a request with a date: indexes lose old releases."""
    if not request.exclude_newer:
        return
    lacking: dict[str, list[SpecifierSet]] = {}
    for clause in conflict.of("no-release", "only"):
        bound = clause.versions if clause.kind == "no-release" else ""
        lacking.setdefault(clause.package, []).append(range_of(bound))
    alone, timeless = own_asks(request), replace(request, exclude_newer=None)
    releases = releases_of(timeless)
    first: list[tuple[str, str, str]] = []
    for name in sorted(lacking.keys() - dict(request.exempt).keys()):
        suited = [release for release in releases(name) if suits_target(release, timeless, name, alone.get(name))]
        fitting = [release for release in suited if not is_skipped(release, timeless, name)]
        # what asks for a release that is gone may have a newer release itself, which asks for one that isn't
        meant = [
            release for release in fitting if any(release.version in bounds for bounds in lacking[name])
        ] or fitting
        first += sorted((release.uploaded, name, release.version) for release in meant if release.uploaded)[:1]
    uploaded, name, version = max(first, default=("", "", ""))
    if uploaded[:19] >= request.exclude_newer[:19]:
        day = date.fromisoformat(uploaded[:10])
        after = (day + timedelta(days=1)).isoformat()
        note = f"the first release of {name} that fits, {version}, is of {day}"
        yield Way(exclude_newer=after, note=note)


def wheels_fit(wheels: Iterable[str], request: Request) -> bool:
    """Return whether one of these wheels fits a target."""
    return any(wheel_fits(file, request.platform, request.python, request.glibc) for file in wheels)


def possible_sources(names: Iterable[str], request: Request, releases: Releases) -> list[str]:
    """Find packages of a conflict of which a release may have nothing but a source before `exclude-newer`, and whose
    sources uv hasn't seen: the date is a file's, and its wheels may have come later."""
    if not request.exclude_newer:
        return []
    seen = {*request.allow_source, *request.unfit}
    return [
        name
        for name in names
        if name not in seen
        and any(
            release.source and (release.wheels or release.late) and suits_target(release, request, name, None)
            for release in releases(name)
        )
    ]
