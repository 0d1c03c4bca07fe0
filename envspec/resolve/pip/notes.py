"""The notes about solutions of the pip half. Pure: pages come in through a function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from envspec.artifacts.sdist.static_source import StaticReader
from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import printable
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import is_older, version_of
from envspec.net.simple_page import NO_DATE
from envspec.packages.names import requirement_name
from envspec.packages.requirement import published_requirement
from envspec.resolve.pip.answer import Resolution
from envspec.resolve.pip.newest import Releases
from envspec.resolve.pip.pins import file_to_install
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

    def each(look: Callable[[Solution], Iterable[Finding]], every: Sequence[str] = ()) -> tuple[Finding, ...]:
        notes = ((solution, note) for solution in solutions for note in look(solution))
        return merge_targets((replace(note, targets=solution.targets) for solution, note in notes), every)

    yield from each(_variants_for_all)
    yield from each(lambda solution: _missing_dates(solution, releases(solution.answer.request)))
    every = [name for solution in solutions for name in solution.targets]
    yield from each(lambda solution: _yanked_files(solution, releases(solution.answer.request)), every)
    if hashed:
        files = sorted(unquote(urlsplit(url).path.rpartition("/")[2]) for url in hashed)
        message = f"the index's page has no sha256 of {', '.join(files)}: lock read the whole and took the hash itself"
        yield Finding("info", "hashed-here", message)
    yield from each(lambda solution: _inert_sources(solution, static))


def _variants_for_all(solution: Solution) -> Iterator[Finding]:
    """Name each package of which one GPU of a target would get another variant than all together."""
    for package in solution.answer.packages:
        file = file_to_install(package, solution.answer.request)
        chosen = file.variant if file else None
        if chosen and any(label != chosen.label for _, label in chosen.alone):
            text = f"{package.name} {package.version} is the variant {chosen.label}, which serves all of its GPUs"
            alone = [f"sm_{gpu.replace('.', '')} alone {label}" for gpu, label in chosen.alone]
            yield Finding("info", "variant-for-all-gpus", f"{text}; {', '.join(alone)}")


def _missing_dates(solution: Solution, releases: Releases) -> Iterator[Finding]:
    """Name each index of the spec's own without upload times that `exclude-newer` should bound."""
    request = solution.answer.request
    sources = dict(request.sources)
    bounded = (p.name for p in solution.answer.packages if p.name in sources and request.not_after(p.name))
    undated = (sources[name] for name in bounded if any(release.uploaded == NO_DATE for release in releases(name)))
    for index in dict.fromkeys(undated):
        message = f"the index {index} has no upload times: exclude-newer doesn't bound what comes from it"
        yield Finding("info", "no-upload-times", message)


def _inert_sources(solution: Solution, static: StaticReader) -> Iterator[Finding]:
    """Name the sources that need no permission, but for those that the old lock had: they were told then."""
    packages = {package.name: package for package in solution.answer.packages}
    for pin in solution.pins:
        if pin.is_inert and solution.pinned.get(pin.name) != pin.version:
            file = file_to_install(packages[pin.name], solution.answer.request)
            why = static.read(file, pin.name, pin.version).inert if file else ""
            message = f"{pin.name} {pin.version} is built from source without allow-source: {why}"
            yield Finding("info", "source-inert", message, package=pin.name)


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


def _yanked_files(solution: Solution, releases: Releases) -> Iterator[Finding]:
    """Warn of files that their publisher yanked, with the reason where the page has one."""
    for package in solution.answer.packages:
        yanked = any(file.yanked for file in package.files)
        file = file_to_install(package, solution.answer.request) if yanked else None
        if file is not None and file.yanked:
            version = str(version_of(package.version or ""))
            same = (release for release in releases(package.name) if release.version == version)
            reason = next((release.why_yanked for release in same), "")
            why = printable(reason.strip()) or "its index gives no reason"
            message = f"{package.name} {package.version} is yanked: {why}"
            yield Finding("warning", "yanked", message, package=package.name)


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
