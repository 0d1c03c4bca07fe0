"""Releases that a solution passes over because wheels are lacking: their own, or those of something that they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from envspec.base.finding import Finding, merge_targets
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import is_older
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.resolve.pip.newest import Behind, Releases, needed_glibc, without_fitting_wheel
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.unbounded import FAR, is_far
from envspec.resolve.torch_index import holes
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.torch_index.unheld import Unheld, asking_for, unheld
from envspec.resolve.uv.errors import unfitting

_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
"""What may be a package's name."""


@dataclass(frozen=True)
class PassedOver:
    """A package that isn't the newest because a release lacks wheels.

    lacks  the package of that release: itself, or what its newer releases need
    glibc  with which, or a later one, a wheel of that release would fit; None where none does
    """

    name: str
    taken: str
    lacks: str
    release: str
    glibc: str | None


@dataclass(frozen=True)
class HeldTorch:
    """torch of the spec, older than the newest that the target can have for what that one requires itself.

    beside  the spec's requirements that the newest can't stand beside
    far     whether it is far behind
    """

    name: str
    taken: str
    newest: str
    beside: tuple[str, ...]
    far: bool


@dataclass(frozen=True)
class Unbuilt:
    """A package that isn't the newest because newer ones need a release of torch that the target can't have.

    every  whether all newer ones do; else others can't be had for other reasons, or what they need does
    """

    name: str
    taken: str
    torch: Unheld
    every: bool


def missing_wheels(
    several: Iterable[Behind],
    request: Request,
    index: TorchIndex,
    releases: Releases,
    refusal: Callable[[tuple[str, ...]], str],
) -> Iterator[PassedOver | Unbuilt | HeldTorch]:
    """Find those of the packages that are behind for want of wheels, their own or torch's. `refusal` says in uv's words
    what keeps bounds from being met: of several conflicts it names one, so that it's asked twice."""
    # what bounds torch's family is its companions' table, and told with it; torch's own requirements aren't in that
    asked = [one for one in several if one.fits and one.name not in FAMILY]
    asked += [held for one in several if one.fits and (held := _newest_torch(one, request, index))]
    said: dict[str, str] = {}
    for _ in range(2):
        if left := [one for one in asked if one.name not in said]:
            message = refusal(tuple(f"{one.name}>={one.newer[-1]}" for one in left))
            said |= dict.fromkeys(map(canonical_name, _WORD.findall(message)), message)
    for one in [one for one in asked if one.name == "torch"]:
        words = {canonical_name(word) for word in _WORD.findall(said.get("torch", ""))}
        beside = [line for line in request.effective if requirement_name(line) in words - {"torch"}]
        if beside:
            newest = one.newer[-1]
            yield HeldTorch(one.name, one.taken, newest, tuple(beside), is_far(one.taken, newest, one.name, releases))
    for one in several:
        if one.fits and one not in asked:
            continue
        why = said.get(one.name, "") if one.fits else ""
        for torch in unheld(why, request, index):
            asking = asking_for(one.name, one.newer, torch, why, request, index)
            yield Unbuilt(one.name, one.taken, torch, asking == set(one.newer))
        for name in sorted(unfitting(why)) if one.fits else (one.name,):
            release = without_fitting_wheel(name, request, releases, one.taken if name == one.name else "")
            if release is not None:
                glibc = needed_glibc(release.wheels, request)
                yield PassedOver(one.name, one.taken, name, release.version, glibc)


def _newest_torch(one: Behind, request: Request, index: TorchIndex) -> Behind | None:
    """Give torch with the newest release alone that the spec and the target admit."""
    newest = holes.newest_releases({request: index}).get(request)
    if one.name != "torch" or newest is None or "torch" not in map(requirement_name, request.effective):
        return None
    had = [version for version in one.newer if not is_older(newest, version)]
    return replace(one, newer=tuple(had[:1])) if had else None


def tell_missing_wheels(
    over: Mapping[Request, Sequence[PassedOver | Unbuilt | HeldTorch]],
    groups: Mapping[Request, tuple[str, ...]],
    notice: Callable[[Finding], None],
) -> None:
    """Write one line for each release that lacks wheels for a target, with the packages that are behind for it."""
    told: list[Finding] = []
    for request, several in over.items():
        glibc = f" with glibc {request.glibc or '2.28'}" if request.platform.startswith("linux-") else ""
        target = f"{request.platform}{glibc} and Python {request.python}"
        unbuilt = [one for one in several if isinstance(one, Unbuilt)]
        lines = _lines([one for one in several if isinstance(one, PassedOver)], target)
        held = [_held_torch_finding(one) for one in several if isinstance(one, HeldTorch)]
        told += [
            replace(line, targets=tuple(groups[request])) for line in (*held, *_of_torch(unbuilt, request), *lines)
        ]
    for line in merge_targets(told):
        notice(line)


def _held_torch_finding(one: HeldTorch) -> Finding:
    beside = " and ".join(one.beside)
    message = f"{one.name} {one.taken} is locked, not {one.newest}: what newer ones require doesn't go with {beside}"
    return Finding("warning" if one.far else "info", FAR if one.far else "passed-over", message)


def _of_torch(several: Sequence[Unbuilt], request: Request) -> Iterator[Finding]:
    behind: dict[tuple[Unheld, bool], list[str]] = {}
    for one in several:
        behind.setdefault((one.torch, one.every), []).append(f"{one.name} {one.taken}")
    for (torch, every), taken in behind.items():
        # a solution on the way may have newer ones than the last: said so that it holds of each
        releases = "releases" if every else "some releases"
        message = f"{releases} after {' and '.join(taken)} need {torch.sentence(request)}"
        if torch.hole:
            yield Finding("warning", holes.CODE, message, remedy="use --refresh to ask the PyTorch index")
        else:
            yield Finding("info", "passed-over", message)


def _lines(several: Sequence[PassedOver], target: str) -> Iterator[Finding]:
    behind: dict[tuple[str, str, str | None], list[str]] = {}
    for one in several:
        if one.lacks == one.name:
            message = f"{one.name} {one.release} has wheels, but none for {target}: {one.taken} is locked"
            yield _with_glibc(message, one.glibc)
        else:
            behind.setdefault((one.lacks, one.release, one.glibc), []).append(f"{one.name} {one.taken}")
    for (lacks, release, glibc), taken in behind.items():
        verb = "is" if len(taken) == 1 else "are"
        needed = f"newer ones need {lacks}, whose {release} has wheels, but none for {target}"
        yield _with_glibc(f"{' and '.join(taken)} {verb} locked: {needed}", glibc)


def _with_glibc(message: str, glibc: str | None) -> Finding:
    """Tell what is passed over, with the glibc that its wheels are for."""
    return Finding("info", "passed-over", f"{message}; its wheels are for glibc {glibc}" if glibc else message)
