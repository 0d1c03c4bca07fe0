"""Releases that a solution passes over because wheels are lacking: their own, or those of something that they need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from envspec.facts.wheels import FAMILY
from envspec.record import dataclass
from envspec.resolve.pip.newest import Behind, Releases, needed_glibc, without_fitting_wheel
from envspec.resolve.pip.request import Request
from envspec.rules.finding import Finding


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


def passed_over(
    several: Iterable[Behind], request: Request, releases: Releases, lacking: Callable[[str], Collection[str]]
) -> Iterator[PassedOver]:
    """Find those of the packages that are behind for want of wheels. `lacking` says which packages without a wheel for
    the target keep a bound from being met."""
    for one in several:
        # what bounds torch's family is its companions' table, and told with it
        if one.fits and one.name in FAMILY:
            continue
        for name in sorted(lacking(f"{one.name}>={one.next}")) if one.fits else (one.name,):
            release = without_fitting_wheel(name, request, releases, one.taken if name == one.name else "")
            if release is not None:
                glibc = needed_glibc(release.wheels, request)
                yield PassedOver(one.name, one.taken, name, release.version, glibc)


def tell_passed_over(
    over: Mapping[Request, Sequence[PassedOver]],
    groups: Mapping[Request, tuple[str, ...]],
    notice: Callable[[Finding], None],
) -> None:
    """Write one line for each release that lacks wheels for a target, with the packages that are behind for it."""
    told: dict[tuple[str, str | None], list[str]] = {}
    for request, several in over.items():
        glibc = f" with glibc {request.glibc or '2.28'}" if request.platform.startswith("linux-") else ""
        target = f"{request.platform}{glibc} and Python {request.python}"
        for line in _lines(several, target):
            told.setdefault(line, []).extend(groups[request])
    for (message, floor), names in told.items():
        remedy = f'if the machines have it: glibc = "{floor}" in the target' if floor else None
        notice(Finding("info", "passed-over", f"{', '.join(names)}: {message}", remedy=remedy))


def _lines(several: Sequence[PassedOver], target: str) -> Iterator[tuple[str, str | None]]:
    """Give each line with the glibc that would do."""
    behind: dict[tuple[str, str, str | None], list[str]] = {}
    for one in several:
        if one.lacks == one.name:
            yield f"{one.name} {one.release} has wheels, but none for {target}: {one.taken} is locked", one.glibc
        else:
            behind.setdefault((one.lacks, one.release, one.glibc), []).append(f"{one.name} {one.taken}")
    for (lacks, release, glibc), taken in behind.items():
        verb = "is" if len(taken) == 1 else "are"
        needed = f"newer ones need {lacks}, whose {release} has wheels, but none for {target}"
        yield f"{' and '.join(taken)} {verb} locked: {needed}", glibc
