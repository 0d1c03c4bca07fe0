"""The distance of an answer behind the one that uv has without envspec's own bounds, and its limit. Pure.

Without them: torch from PyPI, whatever CUDA it is for, no release given up, and wheels for a newer glibc than the
target's. What differs then is the target's doing; what doesn't is a conflict in which it has no part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.errors import Way
from envspec.base.finding import Finding, merge_targets
from envspec.facts import torch_builds
from envspec.facts.cuda_stack import VERSIONED_BY_CUDA, is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import is_older, version_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, head_of, published_requirement
from envspec.resolve.pip.newest import (
    Behind,
    Releases,
    asks_of,
    behind,
    is_skipped,
    needed_glibc,
    suits_target,
    wheels_fit,
    without_fitting_wheel,
)
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import Retreated, newer_pythons
from envspec.resolve.torch_index import holes
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.torch_index.holes import Unheld, find_unheld
from envspec.resolve.uv.answer import Found
from envspec.spec.newer import moment_of

_NEWEST_GLIBC = "2.40"
"""The newest that uv has a platform name for."""
FAR = "far-behind"
"""The warning above everything else."""
_RELEASES, _DAYS = 3, 365
"""Feature releases and days of which an answer may be behind without a warning."""


class Lag(Struct, frozen=True):
    """A package that the spec asks for, or that was given up, and that stays behind uv's unbounded answer.

    free     its version there
    far      whether it is more than three feature releases or a year behind
    needs    packages of that answer whose wheels want a newer glibc than the target's: name, version and glibc
    glibc    with which all wheels of that answer fit
    torch    the release of torch there; None without one
    own      the release of torch here; None without one
    shared   whether another target of the spec has it, and this one has it for that
    """

    name: str
    taken: str
    free: str
    far: bool
    needs: tuple[tuple[str, str, str], ...] = ()
    glibc: str | None = None
    torch: str | None = None
    own: str | None = None
    shared: bool = False

    @property
    def outgrown(self) -> bool:
        """Whether the newer release goes with an older torch than the target's, or the answer has lost its torch."""
        if self.shared or self.torch is None or self.own is None:
            return not self.shared and self.torch is not None
        return not self.needs and is_older(self.torch, self.own)

    @property
    def bound(self) -> str:
        """The bound that the newer release is in."""
        return f"{self.name}>={self.free.partition('+')[0]}"

    @property
    def ways(self) -> tuple[Way, ...]:
        """The glibc with which the newer release can be had."""
        if self.glibc is None:
            return ()
        return (Way(glibc=self.glibc),)

    def reason(self, request: Request) -> str:
        """Say what the newer release wants that the target hasn't."""
        if self.shared and not self.needs:
            return "another target has it, and targets of one spec share versions"
        if self.needs:
            listed = [f"{name} {version} wants glibc {glibc}" for name, version, glibc in self.needs[:3]]
            return f"{' and '.join(listed)}, and the target has {request.glibc or '2.28'}"
        cuda = f"CUDA {request.cuda}" if request.cuda else "the CPU"
        if self.torch and is_older(self.own or "0", self.torch):
            return f"it goes with torch {self.torch}, and the target's for {cuda} is {self.own or 'none'}"
        if self.outgrown:
            return f"it goes with torch {self.torch}, and not with the target's for {cuda}"
        return "newer ones don't go with what the target's CUDA, glibc and Python admit of the rest"


def may_be_behind(found: Iterable[Found], request: Request, kept: Mapping[str, str], releases: Releases) -> bool:
    """Say whether uv's unbounded answer could have newer releases of what the spec asks for: an index has one that the
    spec admits, or a solution was given up for envspec's own bounds. Versions `kept` from the old lock stay there too.
    """
    return bool(request.own or _own_behind(found, request, kept, releases))


def _own_behind(
    found: Iterable[Found], request: Request, kept: Mapping[str, str], releases: Releases
) -> tuple[Behind, ...]:
    direct = _direct(request)
    return behind([one for one in found if one.name in direct], request, asks_of(request, {}), kept, releases)


def may_have_part(
    found: Sequence[Found],
    request: Request,
    kept: Mapping[str, str],
    shared: Mapping[str, str],
    releases: Releases,
    requires: Requires,
) -> bool:
    """Say whether the target may be why a solution stays behind: releases were given up for it, another target has the
    same, torch or CUDA is there or on the way to the newest of what the spec asks for, or wheels that don't fit are."""
    now = {one.name: one.version or "" for one in found if one.files}
    if request.own or any(name in FAMILY or is_toolkit(name) or shared.get(name) == had for name, had in now.items()):
        return True
    return any(without_fitting_wheel(name, request, releases, had) for name, had in now.items()) or any(
        any(_ahead(replace(one, newer=one.newer[:1]), request, now, releases, requires))
        for one in _own_behind(found, request, kept, releases)
    )


def without_bounds(request: Request) -> Request:
    """Give the request for uv's unbounded answer."""
    constraints = tuple(line for line in request.constraints if line not in request.own)
    glibc = request.glibc
    if request.platform.startswith("linux-"):
        glibc = max(_NEWEST_GLIBC, request.glibc or "2.28", key=_minor)
    return replace(request, constraints=constraints, own=(), final=(), glibc=glibc)


def lags(
    found: Sequence[Found], free: Sequence[Found], request: Request, releases: Releases, shared: Mapping[str, str]
) -> tuple[Lag, ...]:
    """Find the packages of the spec, and those that were given up, that are older in a solution than in uv's unbounded
    one, for the target's doing, or for versions that are `shared` with another target."""
    here, there = ({one.name: one.version or "" for one in several} for several in (found, free))
    torch, own = (one.get("torch", "").partition("+")[0] or None for one in (there, here))
    lost = (torch is not None and own is None) or (any(map(is_toolkit, there)) and not any(map(is_toolkit, here)))
    needs = tuple(_needs(free, request, releases))
    glibc = max((one[2] for one in needs), key=_minor, default=None)
    several = []
    # an extra that a newer release has isn't given up, of cuda-core neither; what has CUDA's own version isn't behind
    extras = {head.name for head in map(head_of, request.effective) if head.extras} - {*FAMILY}
    for name in sorted((_direct(request) | extras | set(map(requirement_name, request.own))) - VERSIONED_BY_CUDA):
        older, its = is_older(here.get(name, ""), there.get(name)), shared.get(name) == here.get(name)
        if older and (its or lost or torch != own or needs or request.own):
            far = is_far(here[name], there[name], name, releases)
            several.append(Lag(name, here[name], there[name], far, needs, glibc, torch, own, its))
    return tuple(several)


def names_torch(requires: Iterable[str], torch: str | None) -> bool:
    """Say whether requirements name a release of torch: by a pin, or a bound that refuses the next minor."""
    if torch is None:
        return False
    own = Version(torch.partition("+")[0])
    following = f"{own.major}.{own.minor + 1}"
    bounds = [published_requirement(line).specifier for line in requires if head_of(line).name == "torch"]
    return any(
        one.contains(str(own), prereleases=True) and not one.contains(following, prereleases=True) for one in bounds
    )


def refuse_outgrown(several: Sequence[Lag], request: Request, label: str) -> None:
    """Raise Retreated for packages that the target's torch sent back to releases that don't name it, but for those that
    the spec accepts. `label` names the targets."""
    lost = [one for one in several if one.outgrown and not {"retreat", f"retreat:{one.name}"} & {*request.accepted}]
    if lost:
        said = [
            f"{one.name} {one.free}: {one.reason(request)}; {one.taken} "
            + ("leads to no torch" if one.needs else "names none of it")
            for one in lost
        ]
        bounds = tuple(f"{one.name}<={one.taken}" for one in lost)
        older = Way(bounds=bounds) if lost[1:] else Way(line=bounds[0])
        first = lost[0]
        newer = [Way(cuda=cuda) for cuda in _other_cudas(first, request)]
        newer += [Way(python=python) for python in newer_pythons(request.python)]
        if first.needs:
            newer = [Way(glibc=first.glibc)]
        ways = [*newer, older]
        raise Retreated(f"{label}: {'; '.join(said)}", ways, {one.name: "retreat" for one in lost})


def tell_lags(
    several: Mapping[Request, Sequence[Lag]],
    said: Mapping[Request, Collection[str]],
    groups: Mapping[Request, tuple[str, ...]],
    notice: Callable[[Finding], None],
) -> None:
    """Write what stays behind uv's unbounded answer: a warning each for what is far behind; one note for all else that
    isn't `said`."""
    for request, names in groups.items():
        for one in several.get(request, ()):
            message = f"{one.name} {one.taken} is locked, not {one.free}: {one.reason(request)}"
            if one.outgrown and request.own and not one.needs:
                continue  # judged with what was given up
            if one.far:
                notice(Finding("warning", FAR, message, targets=names, ways=one.ways))
            elif one.name not in said[request]:
                notice(Finding("info", "passed-over", message, targets=names))


def _other_cudas(lag: Lag, request: Request) -> list[str]:
    """List the CUDA versions with a build of the torch that the newer release goes with, the newest first. Where that
    is an older torch, newer ones with a build of the target's own come before them."""

    def cudas_of(torch: str | None) -> list[str]:
        found = torch_builds.lockable_cudas(request.platform, torch, request.python) if torch and request.cuda else ()
        return [one for one in found if one != request.cuda]

    own = [one for one in cudas_of(lag.own) if torch_builds.order(one) > torch_builds.order(str(request.cuda))]
    return list(dict.fromkeys((*(own if lag.outgrown else ()), *cudas_of(lag.torch)[:2])))


def _direct(request: Request) -> set[str]:
    """List what the spec asks for by name, without what follows the target's CUDA: torch's family and what it pins."""
    names = {requirement_name(line) for line in request.effective if " @ " not in line}
    return {name for name in names if name not in (*FAMILY, "triton") and not is_toolkit(name)}


def _needs(free: Iterable[Found], request: Request, releases: Releases) -> Iterator[tuple[str, str, str]]:
    for package in free:
        wheels = [one.file for one in package.files if one.file.endswith(".whl")]
        page = next((one for one in releases(package.name) if one.version == package.version), None) if wheels else None
        fitting = needed_glibc(page.wheels, request) if page is not None else None
        if page is not None and fitting and not wheels_fit(page.wheels, request):
            yield package.name, str(package.version), fitting


def _minor(glibc: str) -> int:
    return int(glibc.split(".")[1])


def is_far(taken: str, free: str, name: str, releases: Releases) -> bool:
    """Say whether a release is more than three feature releases or a year behind another one."""
    days, features = distance(taken, free, name, releases)
    return features > _RELEASES or days > _DAYS


def distance(taken: str, free: str, name: str, releases: Releases) -> tuple[int, int]:
    """Give the days, none where a time isn't known, and the feature releases from a release to a newer one."""
    own, there = version_of(taken), version_of(free)
    assert own is not None and there is not None
    page = [(version, one.uploaded) for one in releases(name) if (version := version_of(one.version)) is not None]
    between = {(one.epoch, *one.release[:2]) for one, _ in page if own < one <= there and not one.is_prerelease}
    times = [next((at for one, at in page if one == version and at), None) for version in (own, there)]
    first, last = map(moment_of, times)
    return (last - first).days if first and last else 0, len(between - {(own.epoch, *own.release[:2])})


# Releases that a solution passes over because wheels are lacking: their own, or those of something that they need.


class PassedOver(Struct, frozen=True):
    """A package that isn't the newest because a release lacks wheels.

    lacks  the package of that release: itself, or what its newer releases need
    glibc  with which, or a later one, a wheel of that release would fit; None where none does
    """

    name: str
    taken: str
    lacks: str
    release: str
    glibc: str | None


class HeldTorch(Struct, frozen=True):
    """torch of the spec, older than the newest that the target can have for what that one requires itself.

    beside  the spec's requirements that the newest can't stand beside
    far     whether it is far behind
    """

    name: str
    taken: str
    newest: str
    beside: tuple[str, ...]
    far: bool


class Unbuilt(Struct, frozen=True):
    """A package that isn't the newest because the next one needs a release of torch that the target can't have."""

    name: str
    taken: str
    torch: Unheld


Requires = Callable[[str, str], Iterable[str]]
"""A release's requirements that hold in the target, without extras; none where its METADATA can't be read."""
_READ = 12
"""Packages of whose METADATA a newer release's reason is read."""


def missing_wheels(
    several: Iterable[Behind],
    request: Request,
    index: TorchIndex,
    now: Mapping[str, str],
    releases: Releases,
    requires: Requires,
) -> Iterator[PassedOver | Unbuilt | HeldTorch]:
    """Find those of the packages that are behind the solution that is there `now` for want of wheels, their own or
    torch's, or of what their next release leads to, by METADATA."""
    for one in several:
        release = without_fitting_wheel(one.name, request, releases, one.taken)
        if release is not None and (not one.fits or release.version == one.newer[-1]):
            yield PassedOver(one.name, one.taken, one.name, release.version, needed_glibc(release.wheels, request))
        elif one.name not in FAMILY:
            asking, lacking = _ahead(one, request, now, releases, requires)
            yield from (Unbuilt(one.name, one.taken, torch) for torch in find_unheld(asking, request, index))
            for name in lacking:
                if release := without_fitting_wheel(name, request, releases):
                    yield PassedOver(one.name, one.taken, name, release.version, needed_glibc(release.wheels, request))
        elif newest := _newest_torch(one, request, index):
            beside = _conflicting(requires("torch", newest), request, releases)
            if beside:
                yield HeldTorch("torch", one.taken, newest, beside, is_far(one.taken, newest, "torch", releases))


def _ahead(
    one: Behind, request: Request, now: Mapping[str, str], releases: Releases, requires: Requires
) -> tuple[str, list[str]]:
    """Read what a package's next release asks of torch's family, in uv's words, and which packages it leads to that
    have no wheel for the target."""
    asking, lacking, seen, waiting = [], [], {one.name}, [(one.name, one.newer[-1])]
    for name, version in waiting:
        for requirement in map(published_requirement, requires(name, version) if len(waiting) < _READ else ()):
            asked = canonical_name(requirement.name)
            if asked in seen or requirement.url or (asked in now and now[asked] in requirement.specifier):
                continue
            seen.add(asked)
            admitted = [
                release
                for release in releases(asked)
                if suits_target(release, request, asked, None) and release.version in requirement.specifier
            ]
            fitting = [release.version for release in admitted if not is_skipped(release, request, asked)]
            if asked in FAMILY:
                asking.append(f"{name} depends on {asked}{requirement.specifier}")
            elif admitted and not fitting:
                lacking.append(asked)
            elif fitting and asked not in now:
                waiting.append((asked, fitting[0]))
    return ", ".join(asking), sorted(lacking)


def _conflicting(lines: Iterable[str], request: Request, releases: Releases) -> tuple[str, ...]:
    """Give the spec's requirements that no release meets together with these lines."""
    asked = {requirement_name(line): line for line in request.effective if " @ " not in line}
    found = []
    for requirement in map(published_requirement, lines):
        line = asked.get(canonical_name(requirement.name), "")
        both = requirement.specifier & (published_requirement(line) if line else requirement).specifier
        if line and not any(one.version in both for one in releases(canonical_name(requirement.name))):
            found.append(line)
    return tuple(found)


def _newest_torch(one: Behind, request: Request, index: TorchIndex) -> str | None:
    """Name the newest release of torch that the spec and the target admit, after the one that is taken."""
    newest = holes.newest_releases({request: index}).get(request)
    if one.name != "torch" or newest is None or "torch" not in map(requirement_name, request.effective):
        return None
    return next((version for version in one.newer if not is_older(newest, version)), None)


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
        said = (*held, *_of_torch(unbuilt, request), *lines)
        told += [replace(line, targets=tuple(groups[request])) for line in said]
    for line in merge_targets(told):
        notice(line)


def _held_torch_finding(one: HeldTorch) -> Finding:
    beside = " and ".join(one.beside)
    message = f"{one.name} {one.taken} is locked, not {one.newest}: what newer ones require doesn't go with {beside}"
    return Finding("warning" if one.far else "info", FAR if one.far else "passed-over", message)


def _of_torch(several: Sequence[Unbuilt], request: Request) -> Iterator[Finding]:
    behind: dict[Unheld, list[str]] = {}
    for one in several:
        behind.setdefault(one.torch, []).append(f"{one.name} {one.taken}")
    for torch, taken in behind.items():
        message = f"releases after {' and '.join(taken)} need {torch.sentence(request)}"
        hole = Finding("warning", holes.CODE, message, remedy="use --refresh to ask the PyTorch index")
        yield hole if torch.hole else Finding("info", "passed-over", message)


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
    fits = f"; its wheels are for glibc {glibc}, and a target's `glibc` says what its machines have" if glibc else ""
    return Finding("info", "passed-over", f"{message}{fits}")
