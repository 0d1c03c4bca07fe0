"""Holes of the shipped facts: releases of the torch family that exist, but whose files have no recorded hash.

A hole must not change a version silently: targets without one take the newest torch that exists for them, a target with
one takes the newest that the facts have for it, and a warning reports the hole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta

from msgspec import Struct
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.base.errors import IndexFailure
from envspec.base.finding import Finding
from envspec.facts import released, torch_builds, wheels
from envspec.facts.wheels import FAMILY, WheelFile
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import Release
from envspec.packages.conflict import Unsatisfiable
from envspec.packages.edges import markers_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.packages.tags import is_for_platform, wheel_fits
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import (
    TorchIndex,
    default_builds,
    in_time,
    index_builds,
    lockable_releases,
    torch_request,
)
from envspec.resolve.uv.conflict import range_of
from envspec.resolve.uv.errors import name_own_bound
from envspec.spec.way import Way

CODE = "torch-not-in-facts"


def newest_releases(indexes: Mapping[Request, TorchIndex]) -> dict[Request, str]:
    """Give the torch release that each request should prefer: the newest that it can have, of which the facts have its
    files. So targets share a release where all have it, and one that hasn't holds no other back."""
    preferred = {}
    for request, index in indexes.items():
        direct = [*map(requirement_name, request.requirements)]
        held = [version for version in _existing(request, index) if not _missing(request, index, version, direct)]
        if held:
            preferred[request] = max(held, key=Version)
    return preferred


def held_files(request: Request, index: TorchIndex, project: str) -> dict[str, WheelFile]:
    """Give a file of each release (without its local part) of a project of torch's family that the facts have for a
    request on its index, newest first."""
    own = index_builds(request, str(index.variant), project)
    files = wheels.load(str(index.variant)).files(project) if own else ()
    here = request.platform, request.python, request.glibc
    by_version = {
        Version(file.version).public: file for file in files if file.version in own and wheel_fits(file.file, *here)
    }
    return {version: by_version[version] for version in sorted(by_version, key=Version, reverse=True)}


def held_releases(request: Request, index: TorchIndex, project: str) -> tuple[Release, ...]:
    """List the releases of `held_files`."""
    files = held_files(request, index, project).items()
    return tuple(_release_of(project, version, file.upload_time) for version, file in files)


def all_releases(request: Request) -> tuple[Release, ...]:
    """List the releases of torch that a request's platform has, for whatever CUDA and Python, newest first."""
    on_pypi = (release.version for release in torch_builds.releases() if request.platform in release.pypi)
    torch = torch_request(request)
    admitted = (v for v in on_pypi if torch.admits(v) and in_time(v, request.not_after("torch")))
    return tuple(_release_of("torch", version, None) for version in sorted(admitted, key=Version, reverse=True))


def known_requirements(request: Request) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield torch's releases for a request's platform, newest first, each with what a wheel of it requires that the
    facts have, for whatever CUDA and Python."""
    known: dict[str, tuple[str, ...]] = {}
    for variant in wheels.variants():
        for file in wheels.load(variant).files("torch"):
            if is_for_platform(file.file, request.platform):
                known.setdefault(Version(file.version).public, file.requires_dist)
    holds = markers_of(request.platform, request.full_python).hold
    for version in sorted(known, key=Version, reverse=True):
        yield version, tuple(line for line in known[version] if holds(line))


def _release_of(project: str, version: str, uploaded: str | None) -> Release:
    return Release(version, (), False, False, None, uploaded or released.date(project, version))


def finding(
    request: Request, index: TorchIndex, pins: Sequence[Pin], pinned: str | None = None, everywhere: str | None = None
) -> Finding | None:
    """Make the warning for a solved request whose torch is older because of a hole of the facts; None if it isn't.

    `pinned` is the version of torch that the old lock had, `everywhere` the newest that all targets could share if they
    don't.
    """
    torch = next((pin for pin in pins if pin.name == "torch" and pin.kind == "pip"), None)
    if torch is None or index.variant is None or index.live or torch.version == pinned:
        return None
    bounds = _bounds(pins)
    here = Version(Version(torch.version).public)
    newer = [
        version
        for version in _existing(request, index)
        if here < Version(version) and all(bound.contains(version, prereleases=True) for bound in bounds)
    ]
    lacking = {version: _missing(request, index, version, [pin.name for pin in pins]) for version in newer}
    if not all(lacking.values()) or not lacking:
        # there is a newer one whose files are known: something else stands in its way
        return None
    best = max(newer, key=Version)
    missing = lacking[best]
    listed = ", ".join(missing[:-1]) + f" and {missing[-1]}" if len(missing) > 1 else missing[0]
    message = (
        f"torch {here} is locked, not {best}: envspec's own facts have no file of {listed} for "
        f"{request.platform} and Python {request.python}"
    )
    same = f"; torch {everywhere} is the newest that all targets could have" if everywhere else ""
    remedy = "if this machine reaches the PyTorch index, --refresh asks it"
    return Finding("warning", CODE, message + same, remedy=remedy, package="torch")


def _bounds(pins: Sequence[Pin]) -> list[SpecifierSet]:
    """Collect what packages of other projects require of torch."""
    return [
        parse_requirement(line).specifier
        for pin in pins
        if pin.kind == "pip" and pin.name not in FAMILY
        for line in pin.dependencies
        if requirement_name(line) == "torch"
    ]


def everywhere(solutions: Iterable[tuple[Request, Sequence[Pin]]]) -> str | None:
    """Find the newest torch release that every target with a torch can have, with its packages of the family, from PyPI
    or from the facts; None if they have the same release already, or none in common."""
    locked = [(request, pins) for request, pins in solutions if _release(pins)]
    if len({_release(pins) for _, pins in locked}) < 2:
        return None
    common: set[str] | None = None
    for request, pins in locked:
        torch, family = torch_request(request), [pin.name for pin in pins]
        from_index = TorchIndex(torch_builds.variant_of(request.cuda))
        here = {
            v
            for v in (release.version for release in torch_builds.releases())
            if torch.admits(v)
            and in_time(v, request.not_after("torch"))
            and (
                v in default_builds(request.platform, str(from_index.variant))
                or not _missing(request, from_index, v, family)
            )
        }
        common = here if common is None else common & here
    return max(common, key=Version) if common else None


def _release(pins: Sequence[Pin]) -> str | None:
    return next((pin.version.partition("+")[0] for pin in pins if pin.name == "torch" and pin.kind == "pip"), None)


def unreachable_index(failure: IndexFailure, request: Request, index: TorchIndex, label: str) -> IndexFailure:
    """Make the error for a live index that doesn't answer: the reason why envspec asked it, and a remedy. `label` names
    the targets."""
    torch, why = torch_request(request).text, failure.message.removeprefix(f"{label}: ")
    error = IndexFailure(
        f"{label}: the spec asks for {torch}, envspec's own facts have no file of {hole_text(request, index)}, and the "
        f"PyTorch index doesn't answer: {why}",
        hint="if you have a mirror of it, set that: [mirrors] pytorch in envspec's config (docs/resolution.md)",
    ).with_subjects("torch")
    error.ways = _ways_to_held(request)
    return error


def _ways_to_held(request: Request) -> tuple[Way, ...]:
    """Give the ways to what the facts have for a request's platform, Python and CUDA: the newest releases before its
    date, else the day after the oldest one."""
    variant = torch_builds.variant_of(request.cuda)
    held = {version.partition("+")[0] for version in index_builds(request, variant)}
    held |= builds_of(request, variant) & {*default_builds(request.platform, variant)}
    known = sorted(held, key=Version, reverse=True)
    in_its_time = [version for version in known if in_time(version, request.not_after("torch"))]
    if known and not in_its_time and (day := released.date("torch", known[-1])):
        after = date.fromisoformat(day[:10]) + timedelta(days=1)
        line = f"torch=={known[-1]}"
        return (Way(exclude_newer=str(after), line=line, note="the facts begin with it"),)
    return tuple(Way(line=f"torch=={version}", note="envspec's facts have it") for version in in_its_time[:_MOST])


def hole_text(request: Request, index: TorchIndex) -> str:
    """Name the newest torch that a request asks for and of which the facts have no file: "torch 2.11.0+cpu for linux-64
    and Python 3.12"; "this torch" if the release isn't in the facts either."""
    versions = _existing(request, index)
    if not versions:
        return "this torch"
    return f"torch {max(versions, key=Version)}+{index.variant} for {request.platform} and Python {request.python}"


def _existing(request: Request, index: TorchIndex) -> frozenset[str]:
    """List the torch releases that a request admits and that have a build for it, whether or not the facts have it."""
    variant, torch = index.variant or torch_builds.variant_of(request.cuda), torch_request(request)
    known = {*default_builds(request.platform, variant)}
    if index.variant is not None:
        known = {*builds_of(request, variant), *(build.partition("+")[0] for build in index_builds(request, variant))}
    return frozenset(v for v in known if torch.admits(v) and in_time(v, request.not_after("torch")))


def builds_of(request: Request, variant: str) -> frozenset[str]:
    """List the torch releases that have a build of a variant for a request, whoever holds its files."""
    return frozenset(
        build.version
        for build in torch_builds.builds(variant=variant, platform=request.platform)
        if build.trust != "planned" and request.python in build.pythons and _runs(build.glibc, request.glibc)
    )


def _missing(request: Request, index: TorchIndex, release: str, names: Sequence[str]) -> list[str]:
    """List the files of these projects that the facts lack for a torch release: "torchaudio 2.11.0+cpu"."""
    if index.variant is None or index.live:
        return []
    missing = []
    for project in FAMILY:
        if project != "torch" and project not in names:
            continue
        fitting = (release,) if project == "torch" else torch_builds.companions(release).get(project, ())
        held = {version.partition("+")[0] for version in index_builds(request, index.variant, project)}
        if fitting and held.isdisjoint(fitting):
            missing.append(f"{project} {fitting[-1]}+{index.variant}")
    return missing


def _runs(needed: str | None, glibc: str | None) -> bool:
    return needed is None or glibc is None or torch_builds.order(needed) <= torch_builds.order(glibc)


# Releases of the torch family that a conflict of uv's is about, and that a target can't have: the facts lack their
# files, or there is no build of them for its CUDA. Pure.


class Unheld(Struct, frozen=True):
    """releases  projects and their versions
    hole      whether they are built for the target, and only the facts lack their files
    """

    releases: tuple[tuple[str, str], ...]
    hole: bool

    def sentence(self, request: Request) -> str:
        """Write the reason why the target can't have them: "torch 2.11.0, of which …"."""
        target = f"{request.platform} and Python {request.python}"
        cuda = f"CUDA {request.cuda}" if request.cuda else "the CPU"
        named = [(project, [v for name, v in self.releases if name == project]) for project in FAMILY]
        releases = " and ".join(f"{project} {_either(versions)}" for project, versions in named if versions)
        if self.hole:
            return f"{releases}, of which envspec's own facts have no file for {cuda}, {target}"
        return f"{releases}, of which there is no build for {cuda}, {target}"


def find_unheld(needed: Iterable[tuple[str, str]], request: Request, index: TorchIndex) -> tuple[Unheld, ...]:
    """Find the torch family's projects, in their required ranges, that a request can't have, each with its newest
    release of those asked for; holes first."""
    if index.live:
        return ()
    variant, admitted = index.variant or torch_builds.variant_of(request.cuda), torch_request(request)

    def could_be(torch: str) -> bool:
        return admitted.admits(torch) and in_time(torch, request.not_after("torch"))

    known = [release.version for release in torch_builds.releases() if could_be(release.version)]
    built = [version for version in builds_of(request, variant) if could_be(version)]
    by_kind: dict[bool, dict[tuple[str, str], None]] = {True: {}, False: {}}
    for project, specifier in dict.fromkeys(pair for pair in needed if pair[0] in FAMILY):
        held = {version.partition("+")[0] for version in index_builds(request, variant, project)}
        if project == "torch":
            held |= set(default_builds(request.platform, variant))
        elif index.variant is None:
            continue
        if _matching(specifier, sorted(held)):
            continue
        if matching := _matching(specifier, _of(project, built)):
            by_kind[True][project, matching[-1]] = None
        elif fitting := _matching(specifier, _of(project, known)):
            by_kind[False][project, fitting[-1]] = None
    return tuple(Unheld(tuple(releases), hole) for hole, releases in by_kind.items() if releases)


def explain_torch(refused: Unsatisfiable, request: Request, index: TorchIndex, *, gated: bool) -> Unsatisfiable:
    """Add to a refusal the torch family's releases that it asks for and the target can't have, with the CUDA versions
    for which they can be locked. `gated`: the proxy serves the facts. Other refusals stay as they are."""
    proof = refused.conflict
    if index.live or proof.packages.isdisjoint(FAMILY):
        return refused
    known = [release.version for release in torch_builds.releases()]
    own = [_matching(line.removeprefix("torch"), known) for line in index.constraints]
    whose = f"CUDA {request.cuda}"
    refused.message = name_own_bound(refused.message, "torch", lambda bound: _matching(bound, known) in own, whose)
    needed = [(clause.other, clause.bound) for clause in proof.of("requires") if clause.package and clause.bound]
    unheld = next(iter(find_unheld(needed, request, index)), None)
    ask = "if this machine reaches the PyTorch index, --refresh asks it"
    if unheld is not None:
        refused.message = f"{refused.message.rstrip('.')}. The target needs {unheld.sentence(request)}"
        refused.hint = ask if unheld.hole else refused.hint
    elif gated and not proof.packages.isdisjoint(FAMILY[1:]):
        refused.hint = f"{ask}: envspec's own facts may lack a file of {' or '.join(FAMILY[1:])} here"
    if cudas := _other_cudas(request, unheld):
        # the day stays where another CUDA has a torch of it
        left = (way for way in refused.ways if not way.exclude_newer)
        refused.ways = (*(Way(cuda=cuda) for cuda in cudas[:_MOST]), *left)
    return refused


_MOST = 2
"""CUDA versions that one conflict proposes."""


def _other_cudas(request: Request, unheld: Unheld | None) -> tuple[str, ...]:
    """List the CUDA versions for which a torch can be locked that a conflict needs, or where the target's has none
    within the spec's bounds and day, the newest such torch, newest first."""
    if request.cuda is None:
        return ()
    cudas = torch_builds.lockable_cudas(request.platform, python=request.python)
    every = {cuda: lockable_releases(request, cuda, request.python) for cuda in cudas}
    if unheld is not None and not unheld.hole:
        needed = [
            {version} if name == "torch" else {*torch_builds.torch_for(name, version)}
            for name, version in unheld.releases
        ]
        return tuple(cuda for cuda, known in every.items() if all(map({*known}.intersection, needed)))
    newest = max((version for known in every.values() for version in known), key=Version, default=None)
    if every.get(request.cuda) or newest is None:
        return ()
    return tuple(cuda for cuda, known in every.items() if newest in known)


def _of(project: str, releases: Sequence[str]) -> list[str]:
    """List the versions of a project of the family that these releases of torch go with."""
    if project == "torch":
        return list(releases)
    return [version for torch in releases for version in torch_builds.companions(torch).get(project, ())]


def _matching(specifier: str, versions: Sequence[str]) -> list[str]:
    return sorted(range_of(specifier).filter(versions, prereleases=True), key=Version)


def _either(versions: Sequence[str]) -> str:
    *front, last = sorted(versions, key=Version)
    return f"{', '.join(front)} or {last}" if front else last
