"""The answer that uv has without envspec's own bounds: torch from PyPI, whatever CUDA it is for, and wheels for a newer
glibc than the target's. What goes with a newer release there tells whether the target's CUDA sent a package back. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.errors import Way
from envspec.facts import torch_builds
from envspec.facts.cuda_stack import VERSIONED_BY_CUDA, is_toolkit
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import is_older
from envspec.packages.requirement import head_of, published_requirement
from envspec.resolve.pip.leads import LeadCase, names_below, paths_from
from envspec.resolve.pip.newest import Releases, needed_glibc, wheels_fit
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import Retreated, newer_pythons
from envspec.resolve.uv.answer import Found

_NEWEST_GLIBC = "2.40"
"""The newest that uv has a platform name for."""


class Lag(Struct, frozen=True):
    """A package that the spec asks for, and that the target's CUDA sent back: uv's unbounded answer has a newer release
    of it, with an older torch, or this one has lost its torch.

    free   its version there
    needs  packages of that answer whose wheels want a newer glibc than the target's: name, version and glibc
    glibc  with which all wheels of that answer fit
    torch  the release of torch there
    own    the release of torch here; None without one
    """

    name: str
    taken: str
    free: str
    torch: str
    needs: tuple[tuple[str, str, str], ...] = ()
    glibc: str | None = None
    own: str | None = None

    def reason(self, request: Request) -> str:
        """Say what the newer release wants that the target hasn't."""
        if self.needs:
            listed = [f"{name} {version} wants glibc {glibc}" for name, version, glibc in self.needs[:3]]
            return f"{' and '.join(listed)}, and the target has {request.glibc or '2.28'}"
        cuda = f"CUDA {request.cuda}" if request.cuda else "the CPU"
        if self.own is None:
            return f"it goes with torch {self.torch}, and the target's for {cuda} is none"
        return f"it goes with torch {self.torch}, and not with the target's for {cuda}"


def may_retreat(case: LeadCase) -> bool:
    """Say whether an answer may have gone back for the target's CUDA: torch or CUDA's libraries are there, or on the
    way to a newer release of what the spec asks for, and nothing was given up for the target."""
    pages = {name: case.fitting[name] for name in case.order if not case.stays(name)}
    newer = {n: page[0].version for n, page in pages.items() if page and is_older(case.taken[n], page[0].version)}
    if not newer or case.request.own:
        return False
    there = {*case.taken}
    if not any(map(_is_of_cuda, there)):
        paths = paths_from(case, newer)
        there = {other for name in newer for other in names_below(name, paths)}
    return any(map(_is_of_cuda, there))


def _is_of_cuda(name: str) -> bool:
    return name in FAMILY or is_toolkit(name)


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
    """Find the packages of the spec that the target's CUDA sent back. Versions that are `shared` with another target,
    or went back for another requirement, were chosen for these."""
    here, there = ({one.name: one.version or "" for one in several} for several in (found, free))
    torch, own = (one.get("torch", "").partition("+")[0] or None for one in (there, here))
    needs = tuple(_needs(free, request, releases))
    if torch is None or (own is not None and (needs or not is_older(torch, own))):
        return ()
    glibc = max((one[2] for one in needs), key=_minor, default=None)
    return tuple(
        Lag(name, here[name], there[name], torch, needs, glibc, own)
        for name in sorted(_direct(request) - VERSIONED_BY_CUDA)
        if is_older(here.get(name, ""), there.get(name)) and shared.get(name) != here.get(name)
    )


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
    lost = [one for one in several if not {"retreat", f"retreat:{one.name}"} & {*request.accepted}]
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
        raise Retreated(f"{label}: {'; '.join(said)}", ways, {one.name: "retreat" for one in lost}, ("torch",))


def _other_cudas(lag: Lag, request: Request) -> list[str]:
    """List the CUDA versions with a build of the torch that the newer release goes with, the newest first. Where that
    is an older torch, newer ones with a build of the target's own come before them."""

    def cudas_of(torch: str | None) -> list[str]:
        found = torch_builds.lockable_cudas(request.platform, torch, request.python) if torch and request.cuda else ()
        return [one for one in found if one != request.cuda]

    own = [one for one in cudas_of(lag.own) if torch_builds.order(one) > torch_builds.order(str(request.cuda))]
    return list(dict.fromkeys((*own, *cudas_of(lag.torch)[:2])))


def _direct(request: Request) -> set[str]:
    """List what the spec asks for by name, without what follows the target's CUDA: torch's family and what it pins."""
    return {name for name in request.named if name not in (*FAMILY, "triton") and not is_toolkit(name)}


def _needs(free: Iterable[Found], request: Request, releases: Releases) -> Iterator[tuple[str, str, str]]:
    for package in free:
        wheels = [one.file for one in package.files if one.file.endswith(".whl")]
        page = next((one for one in releases(package.name) if one.version == package.version), None) if wheels else None
        fitting = needed_glibc(page.wheels, request) if page is not None else None
        if page is not None and fitting and not wheels_fit(page.wheels, request):
            yield package.name, str(package.version), fitting


def _minor(glibc: str) -> int:
    return int(glibc.split(".")[1])
