"""The index of the torch family for a target: PyPI's where the newest release that the spec admits has a default build
for the target's CUDA, else PyTorch's index of that CUDA. The spec's own bounds decide, before anything is resolved.

Why it is so: docs/design/06-torch-builds.md. Facts: `envspec.facts.torch_builds` (PyPI's default builds) and
`envspec.facts.wheels` (the files of the PyTorch indexes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from msgspec import Struct
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.base.errors import Infeasible
from envspec.facts import released, torch_builds, wheels
from envspec.net.index_proxy.pages import belongs
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.packages.tags import wheel_fits
from envspec.resolve.pip.request import Request
from envspec.spec.newer import moment_of
from envspec.spec.way import Way


class TorchIndex(Struct, frozen=True):
    """variant      "cu126" or "cpu": the torch family comes from that PyTorch index; None: from PyPI
    constraints  lines that keep PyPI's torch to releases whose default build has the asked CUDA
    live         the facts lack a release that the spec asks for: uv also asks the live index, or the user's mirror
    """

    variant: str | None
    constraints: tuple[str, ...] = ()
    live: bool = False


def choose(
    request: Request, *, refresh: bool = False, variants: Callable[[], Iterable[str]] = lambda: ()
) -> TorchIndex:
    """Choose the index of the torch family for a request. `refresh` asks the live index besides the facts. `variants`
    lists the releases of torch that have variants where the request takes it from, and is asked only for a release that
    the facts don't have: of one that they have, PyTorch's indexes have the classic builds.

    Raises Infeasible if the facts have the asked releases and none of them is built for the asked CUDA.
    """
    variant = torch_builds.variant_of(request.cuda)
    if request.cuda is None and not request.platform.startswith("linux-"):
        # PyPI's macOS and Windows wheels are CPU builds in every release
        return TorchIndex(None)
    if any(name == "torch" for name, _ in request.provided):
        # conda's, built for the asked CUDA
        return TorchIndex(None)
    if is_own(request):
        # its wheel says what it's for
        return TorchIndex(None)
    torch = torch_request(request)
    in_default = [v for v in default_builds(request.platform, variant) if torch.admits(v)]
    in_index = [v for v in index_builds(request, variant) if torch.admits(v)]
    before, known = request.not_after("torch"), [r.version for r in torch_builds.releases()]
    of_its_time = [v for v in (*in_default, *in_index) if in_time(v, before)]
    older = not any(in_time(version, before) for version in known)
    if of_its_time or older:
        # where there is none of a day that the facts reach, the date is what stands in the way
        in_default, in_index = ([v for v in versions if v in of_its_time] for versions in (in_default, in_index))
    newest_default = max(map(Version, in_default), default=None)
    newest_index = max((Version(Version(v).public) for v in in_index), default=None)
    if refresh:
        return TorchIndex(variant, live=True)
    if newest_default is not None and (newest_index is None or newest_default >= newest_index):
        return TorchIndex(None, (_between(in_default, request.platform, variant),))
    if newest_index is not None:
        return TorchIndex(variant)
    built = torch_builds.builds(cuda=request.cuda, platform=request.platform, variant=variant)
    exists = any(torch.admits(b.version) and request.python in b.pythons for b in built)
    beyond = torch.beyond(known) or (older and torch.named)
    if (exists or beyond) and any(torch.admits(version) for version in variants()):
        return TorchIndex(None)
    if exists or beyond:
        # known to exist, or newer or older than all that is known, and its files aren't among the facts
        return TorchIndex(variant, live=True)
    if not torch.named:
        # nothing to offer: should anything pull torch in, the guard after resolving refuses what it finds
        return TorchIndex(None)
    cudas = [
        cuda
        for cuda in torch_builds.lockable_cudas(request.platform, python=request.python)
        for known in (torch_builds.lockable(request.platform, torch_builds.variant_of(cuda), request.python),)
        if any(map(torch.admits, known))
    ]
    error = Infeasible(
        f"envspec knows no build of {torch.text} for CUDA {request.cuda} and Python {request.python} on "
        f"{request.platform}",
        hint="`envspec builds torch` lists the known builds",
    ).with_subjects("torch")
    error.ways = tuple(Way(cuda=cuda) for cuda in cudas[:3])
    error.code = "no-build"
    raise error


def choose_for_pin(request: Request, chosen: TorchIndex, pinned: str | None) -> TorchIndex:
    """Choose the index that a pin of torch is from, where it has the asked CUDA and the request still admits it; else
    the one `chosen`. `pinned` is the pin's version: its local part names its index."""
    family_is_elsewhere = chosen.variant is None and not chosen.constraints
    if pinned is None or family_is_elsewhere or not torch_request(request).admits(pinned):
        return chosen
    variant = torch_builds.variant_of(request.cuda)
    if pinned in index_builds(request, variant) and pinned.endswith(f"+{variant}"):
        return TorchIndex(variant, live=chosen.live)
    in_default = default_builds(request.platform, variant)
    if pinned in in_default:
        torch = torch_request(request)
        return TorchIndex(None, (_between([v for v in in_default if torch.admits(v)], request.platform, variant),))
    return chosen


def index_of_older(request: Request, chosen: TorchIndex) -> TorchIndex | None:
    """Give PyTorch's index of the target's CUDA where it has older releases of torch than PyPI has for that CUDA: only
    a resolution shows which of them packages want beside the spec. None where there are none."""
    variant = torch_builds.variant_of(request.cuda)
    if chosen.variant is not None or not chosen.constraints:
        return None
    torch, default = torch_request(request), default_builds(request.platform, variant)
    older = {Version(version).public for version in index_builds(request, variant) if torch.admits(version)}
    return TorchIndex(variant) if older - {*default} else None


def is_own(request: Request) -> bool:
    """Return whether torch comes from an index of the spec's own, or from a URL."""
    named = any(name == "torch" for name, _ in request.sources)
    return named or any(requirement_name(line) == "torch" and "@" in line for line in request.effective)


def needs_own_triton(request: Request) -> bool:
    """Return whether triton too must come from the PyTorch index."""
    return "triton" in wheels.family(request.platform, request.cuda)


class TorchRequest(Struct, frozen=True):
    """The spec's own bounds on torch. `named` is False if only other packages require torch."""

    text: str
    named: bool
    specifiers: tuple[str, ...]

    def admits(self, version: str) -> bool:
        return _admits(self.specifiers, version)

    def beyond(self, releases: Sequence[str]) -> bool:
        """Return whether the spec asks for a release that isn't in the facts at all."""
        # a local part (+cu126) names a build; the release is what stands before it
        public = TorchRequest(
            self.text, self.named, tuple(re.sub(r"\+[a-z0-9.]+", "", s, flags=re.I) for s in self.specifiers)
        )
        return self.named and not any(public.admits(release) for release in releases)


@lru_cache(maxsize=4096)
def _admits(specifiers: tuple[str, ...], version: str) -> bool:
    """Return whether all specifiers admit a version or what stands before its local part. Cached: a spec's targets ask
    the same of the same releases."""
    candidate = Version(version)
    public = Version(candidate.public)
    return all(
        own.contains(candidate, prereleases=True) or own.contains(public, prereleases=True)
        for own in map(SpecifierSet, specifiers)
    )


def torch_request(request: Request) -> TorchRequest:
    """Read the bounds on torch from a request's own lines."""
    own = [parse_requirement(text) for text in request.effective if requirement_name(text) == "torch"]
    lines = (*request.constraints, *request.overrides)
    bounds = [parse_requirement(text) for text in lines if requirement_name(text) == "torch"]
    return TorchRequest(
        ", ".join(f"torch{r.specifier}" for r in own) or "torch",
        bool(own),
        tuple(str(r.specifier) for r in (*own, *bounds)),
    )


def lockable_releases(request: Request, cuda: str | None, python: str | None = None) -> list[str]:
    """List the torch releases within a request's bounds and date that can be locked for a CUDA and a Python, or any,
    oldest first."""
    torch, before = torch_request(request), request.not_after("torch")
    known = torch_builds.lockable(request.platform, torch_builds.variant_of(cuda), python)
    return [version for version in known if torch.admits(version) and in_time(version, before)]


def default_builds(platform: str, variant: str) -> list[str]:
    """List the torch releases whose build on PyPI is of this variant."""
    return [r.version for r in torch_builds.releases() if torch_builds.pypi_variant(r.version, platform) == variant]


def index_builds(request: Request, variant: str, project: str = "torch") -> tuple[str, ...]:
    """List the versions of a torch family project with a file in the facts that a request can install."""
    return _known_builds(variant, project, request.platform, request.python, request.glibc)


@lru_cache(maxsize=512)
def _known_builds(variant: str, project: str, platform: str, python: str, glibc: str | None) -> tuple[str, ...]:
    """The same, cached: each lock needs it dozens of times a target, and the facts don't change while envspec runs."""
    if variant not in wheels.variants():
        return ()
    accept = belongs(variant)
    files = wheels.load(variant).files(project)
    return tuple(w.version for w in files if accept(w) and wheel_fits(w.file, platform, python, glibc))


def _between(versions: Sequence[str], platform: str, variant: str) -> str:
    """Write a constraint that admits exactly these releases among those known."""
    ordered = sorted(map(Version, versions))
    low, high = ordered[0], ordered[-1]
    holes = [
        r.version
        for r in torch_builds.releases()
        if low < Version(r.version) < high and torch_builds.pypi_variant(r.version, platform) != variant
    ]
    return "torch" + ",".join([f">={low}", f"<={high}", *(f"!={hole}" for hole in holes)])


def in_time(version: str, exclude_newer: str | None) -> bool:
    """Return whether a release came out before the spec's date. uv too ignores one without a known date."""
    if exclude_newer is None:
        return True
    came, bound = moment_of(released.date("torch", version)), moment_of(exclude_newer)
    return came is not None and bound is not None and came < bound
