"""Older releases that are no answer: for the target's torch or glibc, a package of the spec goes back to a release that
names neither. Pages and METADATA of newer releases decide it; nothing is solved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from packaging.version import Version

from envspec.facts import torch_builds
from envspec.net.index_proxy.releases import is_older
from envspec.packages.requirement import head_of, published_requirement
from envspec.resolve.pip.behind import OF_TARGET, Behind, BehindCause, cause_of, follows_cuda, reason_of
from envspec.resolve.pip.leads import LeadCase, names_below, paths_from
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.retreat import Retreated, newer_pythons
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.spec.way import Way


class Outgrown(Struct, frozen=True):
    """A package of the spec that went back, for the target's sake, to a release that names neither the target's torch
    nor its glibc.

    newer  its newest release, or the next one, that fits by its page: its requirements don't go with the target
    cause  the newer release's demand that the target can't meet
    own    the release of torch in the answer; None without one
    leads  the package leads to torch in the answer
    """

    name: str
    taken: str
    newer: str
    cause: BehindCause
    own: str | None = None
    leads: bool = False

    def reason(self, request: Request) -> str:
        """Name the newer release's demand that the target can't meet."""
        if not self.cause.torch:
            behind = Behind(self.name, self.taken, self.newer, far=True, cause=self.cause)
            return reason_of([behind], request, self.cause.glibc)
        cuda = f"CUDA {request.cuda}" if request.cuda else "the CPU"
        if self.own is None:
            return f"it goes with torch {self.cause.torch}, and the target's for {cuda} is none"
        return f"it goes with torch {self.cause.torch}, and not with the target's for {cuda}"


def find_outgrown(case: LeadCase, index: TorchIndex, shared: Mapping[str, str]) -> Iterator[Outgrown]:
    """Find outgrown packages in an answer. None in a request with releases that envspec gave up: there the rules judge.
    Versions `shared` with another target don't count: that target chose them."""
    own = case.taken.get("torch")
    locked = {package.name: package.version for package in case.packages}
    for name in () if case.request.own else case.order:
        newer = case.newer(name)
        if (
            not newer
            or case.stays(name)
            or shared.get(name) == locked[name]
            or name in ("torch", "triton")
            or follows_cuda(name)
        ):
            continue
        if names_torch(case.edges.get(name, ()), own):
            continue
        leads = "torch" in names_below(name, case.edges)
        for release in (newer[0], *newer[1:][-1:]):
            cause = cause_of(name, release, case, index)
            of_older_torch = own is not None and bool(cause.torch) and is_older(cause.torch, own)
            is_lost = not leads and cause.kind in OF_TARGET
            is_lost = is_lost and "torch" in names_below(name, paths_from(case, {name: release.version}))
            if of_older_torch or is_lost:
                yield Outgrown(name, case.taken[name], release.version, cause, own, leads=leads)
                break


def names_torch(requires: Iterable[str], torch: str | None) -> bool:
    """Return whether requirements name a release of torch: by a pin, or a bound that refuses the next minor."""
    if torch is None:
        return False
    own = Version(torch.partition("+")[0])
    following = f"{own.major}.{own.minor + 1}"
    bounds = [published_requirement(line).specifier for line in requires if head_of(line).name == "torch"]
    return any(
        bound.contains(str(own), prereleases=True) and not bound.contains(following, prereleases=True)
        for bound in bounds
    )


def refuse_outgrown(candidates: Iterable[Outgrown], request: Request, label: str) -> None:
    """Raise Retreated for packages that went back, but for those that the spec accepts. `label` names the targets."""
    lost = [outgrown for outgrown in candidates if not request.accepts("retreat", outgrown.name)]
    if lost:
        reasons = [
            f"{package.name} {package.newer}: {package.reason(request)}; {package.taken} "
            + ("names none of it" if package.leads else "leads to no torch")
            for package in lost
        ]
        bounds = tuple(f"{package.name}<={package.taken}" for package in lost)
        older = Way(bounds=bounds) if lost[1:] else Way(line=bounds[0])
        first = lost[0]
        newer = [Way(cuda=cuda) for cuda in _other_cudas(first, request)]
        newer += [Way(python=python) for python in newer_pythons(request.python)]
        ways = [*([Way(glibc=first.cause.glibc)] if first.cause.glibc else newer), older]
        raise Retreated(
            f"{label}: {'; '.join(reasons)}", ways, {package.name: "retreat" for package in lost}, ("torch",)
        )


def _other_cudas(lost: Outgrown, request: Request) -> list[str]:
    """List the CUDA versions with a build of the torch that the newer release goes with, the newest first. Where that
    is an older torch, newer ones with a build of the target's own come before them."""

    def cudas_of(torch: str | None) -> Sequence[str]:
        cudas = torch_builds.lockable_cudas(request.platform, torch, request.python) if torch and request.cuda else ()
        return [cuda for cuda in cudas if cuda != request.cuda]

    own = [cuda for cuda in cudas_of(lost.own) if torch_builds.order(cuda) > torch_builds.order(str(request.cuda))]
    return list(dict.fromkeys((*own, *cudas_of(lost.cause.torch)[:2])))
