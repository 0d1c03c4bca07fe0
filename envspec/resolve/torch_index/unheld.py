"""Releases of the torch family that a conflict of uv's is about, and that a target can't have: the facts lack their
files, or there is no build of them for its CUDA. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.facts import torch_builds
from envspec.facts.wheels import FAMILY
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import TorchIndex, default_builds, in_time, index_builds, torch_request
from envspec.resolve.torch_index.holes import builds_of

_BOUNDS = r"(?:[<>=!~]=?|===)[0-9][\w.*+!]*(?:,(?:[<>=!~]=?|===)[0-9][\w.*+!]*)*"
_ASKED = re.compile(rf"depends on ({'|'.join(FAMILY)})({_BOUNDS})")
_ASKING = re.compile(rf"(conclude that )?(?<![\w.-])([\w.-]+)(?:\[[^]]*\])?({_BOUNDS})? {_ASKED.pattern}")


@dataclass(frozen=True)
class Unheld:
    """releases  projects and their versions
    hole      whether they are built for the target, and only the facts lack their files
    """

    releases: tuple[tuple[str, str], ...]
    hole: bool

    def sentence(self, request: Request) -> str:
        """Say why the target can't have them: "torch 2.11.0, of which …"."""
        target = f"{request.platform} and Python {request.python}"
        cuda = f"CUDA {request.cuda}" if request.cuda else "the CPU"
        named = [(project, [v for name, v in self.releases if name == project]) for project in FAMILY]
        several = " and ".join(f"{project} {_either(versions)}" for project, versions in named if versions)
        if self.hole:
            return f"{several}, of which envspec's own facts have no file for {cuda}, {target}"
        return f"{several}, of which there is no build for {cuda}, {target}"


def unheld(message: str, request: Request, index: TorchIndex) -> tuple[Unheld, ...]:
    """Find what a conflict (uv's message) asks for of the family that a request can't have, holes first."""
    if index.live or not any(f"depends on {name}" in message for name in FAMILY):
        return ()
    found: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    for name, hole in dict.fromkeys(_unheld(message, request, index)):
        found[hole].append(name)
    return tuple(Unheld(tuple(names), hole) for hole, names in found.items() if names)


def asking_for(
    name: str, versions: Sequence[str], torch: Unheld, message: str, request: Request, index: TorchIndex
) -> set[str]:
    """Find those of a package's versions that ask for releases as `torch` holds them, as a conflict (uv's message) says
    of the package itself."""
    found: set[str] = set()
    for said in _ASKING.finditer(message):
        if said[1] is not None or said[2] != name:
            continue  # of another package, or a conclusion, which holds beside what uv said before
        if any(one.hole == torch.hole for one in unheld(said[0], request, index)):
            found.update(_matching(said[3] or "", versions))
    return found


def hint_about_torch(message: str, request: Request, index: TorchIndex, *, gated: bool) -> str | None:
    """Give the hint for a conflict about releases of the family that the facts lack, or that have no build. `gated`
    says that the proxy serves the facts. None for other conflicts."""
    loosen = "or loosen one of these requirements"
    for one in unheld(message, request, index):
        way = "--refresh asks the PyTorch index" if one.hole else "give it another CUDA"
        return f"the target needs {one.sentence(request)}: {way}; {loosen}"
    companions = FAMILY[1:]
    if gated and not index.live and any(name in message for name in companions):
        return (
            f"use --refresh to ask the PyTorch index, as envspec's own facts may lack a file of "
            f"{' or '.join(companions)} here; {loosen}"
        )
    return None


def _unheld(message: str, request: Request, index: TorchIndex) -> Iterator[tuple[tuple[str, str], bool]]:
    """Yield a project with its newest release of those asked for, and whether it's one that only the facts lack."""
    variant, asked = index.variant or torch_builds.variant_of(request.cuda), torch_request(request)

    def could_be(torch: str) -> bool:
        return asked.admits(torch) and in_time(torch, request.not_after("torch"))

    known = [release.version for release in torch_builds.releases() if could_be(release.version)]
    built = [version for version in builds_of(request, variant) if could_be(version)]
    for project, specifier in dict.fromkeys((found[1], found[2].rstrip(".")) for found in _ASKED.finditer(message)):
        held = {version.partition("+")[0] for version in index_builds(request, variant, project)}
        if project == "torch":
            held |= set(default_builds(request.platform, variant))
        elif index.variant is None:
            continue
        if _matching(specifier, sorted(held)):
            continue
        if there := _matching(specifier, _of(project, built)):
            yield (project, there[-1]), True
        elif released := _matching(specifier, _of(project, known)):
            yield (project, released[-1]), False


def _of(project: str, releases: Sequence[str]) -> list[str]:
    """List the versions of a project of the family that these releases of torch go with."""
    if project == "torch":
        return list(releases)
    return [version for torch in releases for version in torch_builds.companions(torch).get(project, ())]


def _matching(specifier: str, versions: Sequence[str]) -> list[str]:

    return sorted(SpecifierSet(specifier).filter(versions, prereleases=True), key=Version)


def _either(versions: Sequence[str]) -> str:

    *others, last = sorted(versions, key=Version)
    return f"{', '.join(others)} or {last}" if others else last
