"""The notes about solutions of the pip half. Pure: pages come in through a function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from envspec.artifacts.sdist.static_source import StaticReader
from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import printable
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import is_older, version_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.resolve.pip.answer import Resolution, missing_dates, own_hashes
from envspec.resolve.pip.newest import Releases
from envspec.resolve.pip.pins import file_to_install, variant_notes
from envspec.resolve.pip.problem import Subject
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.uv.answer import Found

_LISTED = 8
"""Packages that a note about others names."""


class PipAnswer(Struct, frozen=True):
    """A solved target.

    request   its request, with the variants that were met
    index     the index of its torch
    findings  the findings about its resolution
    shared    another target's versions, preferred where they fit
    subject   the target itself, with the pins
    """

    request: Request
    resolution: Resolution
    index: TorchIndex
    findings: tuple[Finding, ...]
    shared: Mapping[str, str]
    subject: Subject | None = None

    @property
    def packages(self) -> tuple[Found, ...]:
        return self.resolution.packages


class Solution(Struct, frozen=True):
    """The solution of targets with equal requests, and the sources of notes about it. `pinned` has the versions of the
    old lock: notes on these were printed when they were chosen."""

    answer: PipAnswer
    pinned: Mapping[str, str]
    pins: tuple[Pin, ...]
    targets: tuple[str, ...]


def notes_of(
    solutions: Sequence[Solution],
    releases: Callable[[Request], Releases],
    hashed: Sequence[str],
    static: StaticReader,
) -> Iterator[Finding]:
    """Yield the notes on solutions' files. `hashed` lists the URLs of files whose pages have no sha256."""
    groups = {solution.answer.request: solution.targets for solution in solutions}
    packages = {solution.answer.request: solution.answer.packages for solution in solutions}
    yield from variant_notes(packages, groups)
    yield from missing_dates(packages, groups, releases)
    yield from _yanked_files(packages, groups, releases)
    yield from own_hashes(hashed)
    yield from merge_targets(_inert_sources(solutions, static))


def _inert_sources(solutions: Iterable[Solution], static: StaticReader) -> Iterator[Finding]:
    """Name the sources that need no permission, but for those that the old lock had: they were told then."""
    for solution in solutions:
        packages = {package.name: package for package in solution.answer.packages}
        for pin in solution.pins:
            if not pin.is_inert or solution.pinned.get(pin.name) == pin.version:
                continue
            file = file_to_install(packages[pin.name], solution.answer.request)
            why = static.read(file, pin.name, pin.version).inert if file else ""
            message = f"{pin.name} {pin.version} is built from source without allow-source: {why}"
            yield Finding("info", "source-inert", message, targets=solution.targets, package=pin.name)


def moved_beside(before: Mapping[str, str], after: Mapping[str, str], names: Collection[str]) -> str:
    """List, for the end of a sentence, the packages besides `names` that differ between two solutions."""
    changes = [
        f"{name} {after[name]} for {before[name]}"
        for name in sorted(before.keys() & after.keys() - {*names})
        if after[name] != before[name]
    ]
    changes += [f"{name} {after[name]} besides" for name in sorted(after.keys() - before.keys() - {*names})]
    changes += [f"no {name}" for name in sorted(before.keys() - after.keys() - {*names})]
    more = [f"{len(changes) - _LISTED} more that differ"] if changes[_LISTED:] else []
    return f"; with {', '.join((*changes[:_LISTED], *more))}" if changes else ""


def _yanked_files(
    solutions: Mapping[Request, Sequence[Found]],
    groups: Mapping[Request, tuple[str, ...]],
    releases: Callable[[Request], Releases],
) -> Iterator[Finding]:
    """Warn of files that their publisher yanked, with the reason where the page has one."""
    warnings = []
    for request, packages in solutions.items():
        for package in packages:
            file = file_to_install(package, request) if any(file.yanked for file in package.files) else None
            if file is None or not file.yanked:
                continue
            version = str(version_of(package.version or ""))
            same = (release for release in releases(request)(package.name) if release.version == version)
            reason = next((release.why_yanked for release in same), "")
            why = printable(reason.strip()) or "its index gives no reason"
            message = f"{package.name} {package.version} is yanked: {why}"
            warnings.append(Finding("warning", "yanked", message, targets=groups[request], package=package.name))
    yield from merge_targets(warnings, every=[name for names in groups.values() for name in names])


def rejected_findings(
    rejected: Mapping[str, str], before: Mapping[str, str], now: Mapping[str, str], pinned: Mapping[str, str]
) -> Iterator[Finding]:
    """Report the versions locked in place of releases that uv takes and envspec rejects. `rejected` has each package's
    release and the reason. Other differences from uv's answer `before` stand with the first finding. Versions `pinned`
    from the old lock aren't reported again."""
    beside = moved_beside(before, now, rejected)
    for name, why in sorted(rejected.items()):
        if name not in pinned or pinned[name].partition("+")[0] != now.get(name):
            instead = f"{name} {now[name]} is locked" if name in now else f"{name} isn't locked"
            yield Finding("info", "passed-over", f"{instead}: {why}{beside}")
            beside = ""


def downgrades(
    now: Mapping[str, str], last: Mapping[str, str], edges: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Report each package that is older than in the `last` lock, and the requirement that refuses the locked version.
    Local parts, which name a CUDA, don't count."""
    for name in sorted(last.keys() & now.keys()):
        old = last[name].partition("+")[0]
        if is_older(now[name], old):
            refusing = (
                f"{asker} {now[asker]} requires {line}"
                for asker, lines in edges.items()
                for line in lines
                if requirement_name(line) == name
                and not published_requirement(line).specifier.contains(old, prereleases=True)
            )
            why = next(refusing, f"what {old} requires doesn't go with the rest")
            yield Finding("warning", "downgrade", f"{name} goes back from {old} to {now[name]}: {why}", package=name)
