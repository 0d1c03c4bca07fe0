"""The lower bounds of a spec's own requirements, and the order in which they count: a package that requires another
leads it. Pure: pages and METADATA come in through functions.

uv gives what it reads first its newest release, and sends others back for it, by years. So of what the spec asks for by
name each is held at its newest release that fits: what requires another before that (vllm before torch, torch before
setuptools), then frameworks, then in the spec's order. No answer in which one falls behind is taken while there is one
without that (docs/design/04-resolution.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, takewhile

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from envspec.facts.frameworks import LEADING
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import Release, is_older, version_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.resolve.pip.newest import (
    Fitting,
    Releases,
    fitting_releases,
    is_behind,
    is_skipped,
    own_asks,
    suits_target,
)
from envspec.resolve.pip.problem import Bound, Strength
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found

_SOLVES = 4
"""Questions with bounds, besides uv's own answer."""
_RELEASES = 24
"""Releases of a package whose METADATA is read in search of one that fits."""
_MANY = 128
"""Releases of a package that are asked whether each refuses another one's."""
_READ = 48
"""Packages on the way from one requirement to another whose METADATA is read."""

Requires = Callable[[str, str], Sequence[str]]
"""The requirements of a release (name and version) that hold in the target, with the extras that the spec asks for;
none where its METADATA can't be read."""


class LeadCase(Struct, frozen=True, dict=True):
    """uv's own answer to a request, and what its bounds follow from.

    settled      versions that stay: from the old lock, or from another target
    answer       gives the requirements of its packages that hold in the target
    releases     pages; of torch's family, those of the index that the target's torch comes from
    fitting      the releases that fit the target, by pages alone, newest first
    admitted     releases that the spec, its date and the platform admit, newest first, whether or not they fit
    """

    request: Request
    packages: Sequence[Found]
    settled: Mapping[str, str]
    answer: Callable[[], Mapping[str, Sequence[str]]]
    releases: Releases
    fitting: Fitting
    admitted: Releases
    requires: Requires

    @cached_property
    def taken(self) -> dict[str, str]:
        versions = ((package.name, version_of(package.version or "")) for package in self.packages)
        return {name: version.public for name, version in versions if version is not None}

    @cached_property
    def edges(self) -> Mapping[str, Sequence[str]]:
        return self.answer()

    @cached_property
    def order(self) -> list[str]:
        """The spec's own requirements that have releases: frameworks first, then as the spec has them."""
        published = {package.name for package in self.packages if package.files}
        names = [name for name in self.request.named if name in published]
        return sorted(names, key=lambda name: name not in LEADING)

    def stays(self, name: str) -> bool:
        return self.settled.get(name, "").partition("+")[0] == self.taken[name]

    def newer(self, name: str) -> list[Release]:
        """List the fitting releases that are newer than the answer's."""
        return [*takewhile(lambda release: is_older(self.taken[name], release.version), self.fitting(name))]

    def lines(self, name: str, version: str) -> Sequence[str]:
        """Give the requirements of a release."""
        return self.edges.get(name, ()) if self.taken.get(name) == version else self.requires(name, version)

    def is_known(self, line: str) -> bool:
        """Return whether a requirement names a package of the spec's own, or of torch's family."""
        return requirement_name(line) in (*self.order, *FAMILY)

    def can_have(self, line: str, lowest: Mapping[str, str]) -> bool:
        """Return whether a requirement of a release can be met: by a release of the spec's that isn't below `lowest`,
        or by any that fits."""
        need, name = published_requirement(line), requirement_name(line)
        page = () if need.url or name in dict(self.request.provided) else self.releases(name)
        is_own = name in self.order
        return not page or any(
            need.specifier.contains(release.version, prereleases=True)
            and not is_older(release.version, lowest.get(name))
            for release in (self.fitting(name) if is_own else page)
            if is_own or self._could_be(name, release)
        )

    def _could_be(self, name: str, release: Release) -> bool:
        version = version_of(release.version)
        final = version is not None and not version.is_prerelease
        return not is_skipped(release, self.request, name) and (
            not final or suits_target(release, self.request, name, own_asks(self.request).get(name))
        )

    def newest(self, name: str, bounds: Iterable[SpecifierSet] = (), lowest: Mapping[str, str] = {}) -> str | None:
        """Find the newest release within bounds whose own requirements can be met beside releases of the spec's
        packages that aren't below `lowest`."""
        within = tuple(bounds)
        versions = (
            release.version for release in self.fitting(name) if all(release.version in each for each in within)
        )
        for version in islice(versions, _RELEASES):
            if all(self.can_have(line, lowest) for line in self.lines(name, version)):
                return version
        return None


def _newest_and_near(case: LeadCase) -> tuple[dict[str, str], dict[str, Sequence[str]]]:
    """Give, of the spec's own requirements in the order in which they count, the newest releases that fit beside those
    before them, where there is one, and the releases that aren't behind; none where all are at their newest."""
    free = [name for name in case.order if not case.stays(name)]
    if all(case.taken[name] == release.version for name in free for release in islice(case.fitting(name), 1)):
        return {}, {}
    sole = {name for name in case.order if case.stays(name) or len([*islice(case.fitting(name), 2)]) < 2}
    firm = _bounds_of(line for name in sole for line in case.lines(name, case.taken[name]))
    alone = {name: case.taken[name] if name in sole else case.newest(name, firm.get(name, ())) for name in case.order}
    paths = paths_from(case, {name: version for name, version in alone.items() if version})
    lowest: dict[str, str] = {}
    lines: list[str] = []
    near: dict[str, Sequence[str]] = {}
    for name in lead_order(case, paths):
        bounds = _bounds_of(lines).get(name, ())
        version = case.taken[name] if name in sole else case.newest(name, bounds, lowest)
        own = [] if name in sole else _near(case, name, alone[name], version, firm.get(name, ()))
        if case.taken[name] not in own and any(_refuse(case, other, near[other], name, own) for other in near):
            own = []
        near[name] = own
        if version is not None and own and version not in own:
            version = None
        if version is not None:
            lowest[name] = version
            between = names_below(name, paths) - {*case.order}
            lines += (*case.lines(name, version), *(line for required in between for line in paths.get(required, ())))
    return {name: lowest[name] for name in lowest if case.stays(name) or name not in sole}, near


def _refuse(case: LeadCase, name: str, versions: Sequence[str], other: str, other_versions: Sequence[str]) -> bool:
    """Return whether each of the versions of a package refuses all of several versions of another one."""

    def refuses(version: str) -> bool:
        lines = (line for line in case.lines(name, version) if requirement_name(line) == other)
        return any(
            not any(candidate in published_requirement(line).specifier for candidate in other_versions)
            for line in lines
        )

    return (
        bool(versions and other_versions)
        and len(versions) <= _MANY
        and refuses(versions[0])
        and all(map(refuses, versions))
    )


def _bounds_of(lines: Iterable[str]) -> dict[str, list[SpecifierSet]]:
    bounds: dict[str, list[SpecifierSet]] = {}
    for line in lines:
        bounds.setdefault(requirement_name(line), []).append(published_requirement(line).specifier)
    return bounds


def _near(case: LeadCase, name: str, alone: str | None, beside: str | None, firm: Iterable[SpecifierSet]) -> list[str]:
    """List a package's releases, newest first, that aren't behind the newest that the spec admits; where the newest
    that fits is itself, they aren't behind what it has beside those before it. `alone` is the newest without these."""
    if alone is None:
        return []

    def candidates() -> Iterator[Release]:
        older = (release for release in case.fitting(name) if not is_older(alone, release.version))
        return (release for release in older if all(release.version in each for each in bounds))

    bounds, page = tuple(firm), case.admitted(name)
    first = next(candidates(), None)
    best = page[0] if first and page and not is_behind(first, page[0], name, page) else None
    best = best or next((release for release in candidates() if release.version == beside), None)
    # a patch of an old branch, which came late, is no release that isn't behind
    near = takewhile(lambda release: best is not None and not is_behind(release, best, name, page), candidates())
    return [release.version for release in near]


def lead_order(case: LeadCase, paths: Mapping[str, Iterable[str]]) -> list[str]:
    """Order the spec's requirements: one that requires another through any path goes before it; where neither or both
    do, frameworks first, then the spec's order."""
    below = {name: names_below(name, paths) for name in case.order}
    left, ordered = [*case.order], list[str]()
    while left:
        led = {name for other in left for name in left if name in below[other] and other not in below[name]}
        ordered.append(next((name for name in left if name not in led), left[0]))
        left.remove(ordered[-1])
    return ordered


def paths_from(case: LeadCase, newest: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """Give the requirements of all packages that the spec's own lead to: of the spec's own in the given releases, of
    any other in the newest release that fits and that the spec admits."""
    lines = {name: case.lines(name, newest.get(name, case.taken[name])) for name in case.order}
    waiting = [line for group in lines.values() for line in group]
    left = _READ
    for line in waiting:
        name = requirement_name(line)
        if name in lines:
            continue
        lines[name] = case.edges.get(name, ())
        admits = published_requirement(line).specifier
        for release in fitting_releases(name, case.request, case.releases):
            if release.version not in admits:
                continue
            if release.version == case.taken.get(name) or not left:
                break
            left -= 1
            own = case.requires(name, release.version)
            if all(case.can_have(each, {}) for each in own if case.is_known(each)):
                lines[name] = own
                break
        waiting += lines[name]
    return lines


def names_below(name: str, paths: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Name what a package requires, through any path."""
    names, waiting = set[str](), [name]
    while waiting:
        more = {requirement_name(line) for line in paths.get(waiting.pop(), ())} - names
        names |= more
        waiting += more
    return frozenset(names)


class Leading(Struct, frozen=True):
    """The bounds by which the spec's own requirements lead, as far as conflicts leave them.

    A conflict costs the bound that stands latest in the order and in it, whole: first those at the newest, whose
    packages then may be older, but not behind; then that too. Nothing goes below the last lock's versions while there
    is an answer without that.

    order  of the packages
    taken  the versions of uv's own answer
    newest, near, last  specifiers by package: the newest releases, those that aren't behind, and those not below the
                        last lock
    left   the number of questions that may still be asked
    """

    order: tuple[str, ...]
    taken: Mapping[str, str]
    newest: Mapping[str, str]
    near: Mapping[str, str]
    last: Mapping[str, str]
    left: int = _SOLVES
    is_near: bool = True

    @property
    def bounds(self) -> tuple[Bound, ...]:
        parts = ((self.newest, Strength.NEWEST), (self.near, Strength.NEAR), (self.last, Strength.UPGRADE))
        bounds = [Bound(f"{name}{bound}", strength=each) for part, each in parts for name, bound in part.items()]
        return tuple(sorted(bounds, key=lambda bound: bound.line))

    @property
    def following(self) -> Leading | None:
        """The bounds of the next question; None where uv's own answer has all of them, or after four questions."""
        if not self.left or all(_admits(part, self.taken) for part in (self.newest, self.near, self.last)):
            return None
        following = replace(self, left=self.left - 1)
        if following.left == 1 and not self.is_near:
            # nothing else says whether there is an answer in which none is behind
            return replace(following, newest={})
        if not following.left and not _admits(self.last, self.taken):
            return replace(following, newest={}, near={})
        return following

    def without(self, conflict: frozenset[str]) -> Leading:
        """Drop a bound after a conflict: the latest one on a package that the conflict names, or the latest of all
        where it names none."""
        parts = {"newest": self.newest, "near": self.near, "last": self.last}
        every = [(key, [name for name in self.order if name in part]) for key, part in parts.items()]
        named = [(key, [name for name in names if name in conflict]) for key, names in every]
        key, names = next(group for group in (*named, *every) if group[1])
        name = names[-1]
        less = {other: bound for other, bound in parts[key].items() if other != name}
        return replace(self, **{key: less})


def leading(case: LeadCase, last: Mapping[str, str]) -> Leading:
    """Give the bounds that lead beyond uv's own answer. `last` has the last lock's versions."""
    at_newest, releases = _newest_and_near(case)
    near = {name: f">={versions[-1]}" for name, versions in releases.items() if versions}
    return Leading(
        order=(*releases, *sorted(last.keys() - releases.keys())),
        taken=case.taken,
        newest={n: f">={version}" for n, version in at_newest.items() if n not in last or is_older(last[n], version)},
        near=near,
        last={name: f">={version}" for name, version in last.items()},
        is_near=_admits(near, case.taken),
    )


def _admits(bounds: Mapping[str, str], versions: Mapping[str, str]) -> bool:
    return all(
        SpecifierSet(bound).contains(versions[name], prereleases=True)
        for name, bound in bounds.items()
        if name in versions
    )
