"""The notes about solutions of the pip half. Pure: pages come in through a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct

from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import printable
from envspec.facts.cuda_stack import is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import version_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.resolve.pip.answer import Resolution, tell_missing_dates, tell_own_hashes
from envspec.resolve.pip.direct import DirectFiles
from envspec.resolve.pip.floors import versions_of
from envspec.resolve.pip.newest import Releases, behind, for_other_pythons
from envspec.resolve.pip.pins import file_to_install, tell_variants
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.unbounded import FAR, Lag, is_far, missing_wheels, tell_lags, tell_missing_wheels
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.uv.answer import Found

_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
"""What may be a package's name."""


class Solution(Struct, frozen=True):
    """A solved request, with what notes about it need.

    kept    the versions of the old lock, which were told when they were chosen
    direct  the files that its requirements name by their URL
    """

    request: Request
    answer: Resolution
    index: TorchIndex
    kept: Mapping[str, str]
    direct: DirectFiles
    pins: tuple[Pin, ...]


def last_solutions(
    made: Mapping[str, Sequence[Solution]], pins: Mapping[str, tuple[Pin, ...]]
) -> dict[Request, tuple[Solution, tuple[str, ...]]]:
    """Find the solutions that gave pins, with the names of their targets. `made` has all solutions by target, in their
    order: targets are solved again where what was found can't work."""
    found: dict[Request, tuple[Solution, tuple[str, ...]]] = {}
    for name, several in pins.items():
        last = next((one for one in reversed(made.get(name, ())) if one.pins == several), None)
        if last is not None:
            _, names = found.get(last.request, (last, ()))
            found[last.request] = (last, (*names, name))
    return found


def tell_notes(
    solutions: Mapping[Request, tuple[Solution, tuple[str, ...]]],
    lags: Mapping[Request, Sequence[Lag]],
    releases: Callable[[Request], Releases],
    requires: Callable[[Request, str, str], Iterable[str]],
    hashed: Sequence[str],
    notice: Callable[[Finding], None],
) -> None:
    """Write what there is to say of solutions. `lags` are the packages that stay behind uv's unbounded answers,
    `requires` gives the requirements of a release, and `hashed` lists the URLs of files whose pages say no sha256."""
    groups = {request: names for request, (_, names) in solutions.items()}
    over = {}
    for request, (one, _) in solutions.items():
        of = releases(request)
        several = behind(one.answer.found, request, one.answer.asks, one.kept, of)
        lagging = lags.get(request, ())
        far = {lag.name for lag in lagging if lag.far}
        # of these what is compared has said why
        known = {*far, *(lag.name for lag in lagging if lag.needs or lag.torch != lag.own)}
        near = [one for one in several if one.name not in (known if one.fits else far)]
        now = versions_of(one.answer.found)
        over[request] = tuple(missing_wheels(near, request, one.index, now, of, partial(requires, request)))
    said = {request: {one.name for one in several} for request, several in over.items()}
    tell_lags(lags, said, groups, notice)
    tell_missing_wheels(over, groups, notice)
    tell_pythons(solutions, releases, notice)
    found = {request: one.answer.found for request, (one, _) in solutions.items()}
    tell_variants(found, groups, notice)
    tell_missing_dates(found, groups, releases, notice)
    warn_of_yanks(found, groups, releases, notice)
    tell_own_hashes(hashed, notice)


def warn_of_yanks(
    solutions: Mapping[Request, Sequence[Found]],
    groups: Mapping[Request, tuple[str, ...]],
    releases: Callable[[Request], Releases],
    notice: Callable[[Finding], None],
) -> None:
    """Warn of files that their publisher yanked, with the reason where the page has one."""
    found = []
    for request, packages in solutions.items():
        for package in packages:
            file = file_to_install(package, request) if any(one.yanked for one in package.files) else None
            if file is None or not file.yanked:
                continue
            version = str(version_of(package.version or ""))
            same = (one for one in releases(request)(package.name) if one.version == version)
            reason = next((one.why_yanked for one in same), "")
            why = printable(reason.strip()) or "its index gives no reason"
            message = f"{package.name} {package.version} is yanked: {why}"
            found.append(Finding("warning", "yanked", message, targets=groups[request], package=package.name))
    for finding in merge_targets(found, every=[name for names in groups.values() for name in names]):
        notice(finding)


_MOST = 5
"""Packages that one note names."""


def tell_pythons(
    solutions: Mapping[Request, tuple[Solution, tuple[str, ...]]],
    releases: Callable[[Request], Releases],
    notice: Callable[[Finding], None],
) -> None:
    """Write which of the spec's own packages have newer releases for other Pythons alone."""
    found = []
    for request, (one, names) in solutions.items():
        held = [
            f"{name} {newest.version} {newest.requires_python} ({taken} is locked)"
            for name, taken, newest in for_other_pythons(
                one.answer.found, request, one.answer.asks, one.kept, releases(request)
            )
        ]
        if held:
            more = f", and {len(held) - _MOST} more (`envspec outdated` lists them)" if len(held) > _MOST else ""
            message = f"newer releases want another Python than {request.python}: {', '.join(held[:_MOST])}{more}"
            found.append(Finding("info", "passed-over", message, targets=names))
    for finding in merge_targets(found):
        notice(finding)


def tell_followers(
    solutions: Mapping[Request, tuple[Solution, tuple[str, ...]]],
    releases: Callable[[Request], Releases],
    requires: Callable[[Request, str, str], Iterable[str]],
    told: Iterable[Finding],
    notice: Callable[[Finding], None],
) -> None:
    """Write which packages aren't the newest for a package that is `told` of: their newer releases require, by their
    METADATA, another version of it. `requires` gives the lines of a release. What follows torch and its CUDA by nature
    is told with torch."""
    found = []
    for request, (one, names) in solutions.items():
        of, now = releases(request), versions_of(one.answer.found)
        words = (word for each in told if {*names} & {*each.targets} for word in _WORD.findall(each.message))
        named = set(map(canonical_name, words)) & now.keys()
        left = behind(one.answer.found, request, one.answer.asks, one.kept, of) if named else ()
        lines = {
            each: tuple(requires(request, each.name, each.newer[-1]))
            for each in left
            if each.fits and each.name not in {*named, *FAMILY} and not is_toolkit(each.name)
        }
        while barred := [(each, line) for each in lines for line in lines[each] if _bars(line, named, now)]:
            each, line = barred[0]
            message = (
                f"{each.name} {each.taken} is locked, not {each.newer[0]}: newer ones require {line}, and "
                f"{requirement_name(line)} {now[requirement_name(line)]} is locked"
            )
            far = is_far(each.taken, each.newer[0], each.name, of)
            found.append(Finding("warning" if far else "info", FAR if far else "passed-over", message, targets=names))
            named.add(each.name)
            del lines[each]
    for finding in merge_targets(found):
        notice(finding)


def _bars(line: str, named: Collection[str], now: Mapping[str, str]) -> bool:
    """Say whether a requirement keeps a release from a solution, for one of the packages that are `named`."""
    requirement = published_requirement(line)
    name = canonical_name(requirement.name)
    return name in named and not requirement.specifier.contains(now[name], prereleases=True)
