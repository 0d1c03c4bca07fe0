"""The torch that a target asks for, read from its requirements and match specs, and version specifiers (PEP 440)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from packaging.version import Version

from envspec.base.errors import Place
from envspec.facts import conda_builds, libraries, torch_builds
from envspec.packages.edges import Markers
from envspec.packages.names import requirement_name
from envspec.packages.requirement import Clause, parse_requirement, parse_specifier
from envspec.packages.version_numbers import numbers
from envspec.rules.case import CandidateBuild, conda_builds_of, pip_builds
from envspec.spec.model import Located, Spec, Target

# Version specifiers (PEP 440) for the rules: the known releases that they admit, and the versions that they name.


class Specifier(Struct, frozen=True):
    """Clauses that must all hold. Without clauses, it admits every version."""

    clauses: tuple[Clause, ...] = ()

    def __str__(self) -> str:
        return ",".join(sorted((operator + version for operator, version in self.clauses), reverse=True))

    def __and__(self, other: Specifier) -> Specifier:
        return Specifier(tuple(dict.fromkeys((*self.clauses, *other.clauses))))

    def admits(self, version: str) -> bool:
        """Return whether a version, possibly with a local part, satisfies the specifier."""
        return parse_specifier(str(self)).contains(version, prereleases=True)

    def bounds(self) -> tuple[tuple[int, ...], ...]:
        """The releases that the specifier names, as numbers."""
        return tuple(_release(version.removesuffix(".*")) for _, version in self.clauses)

    def local(self) -> str | None:
        """The local part that the specifier pins (`cu126` of `==2.9.1+cu126`), None without one."""
        return next((version.partition("+")[2].lower() for _, version in self.clauses if "+" in version), None)


def parse(text: str) -> Specifier:
    """Read a specifier. Raises ValueError for a text that isn't one."""
    return Specifier(tuple((clause.operator, clause.version) for clause in parse_specifier(text)))


def _release(version: str) -> tuple[int, ...]:
    try:
        return numbers(version)
    except ValueError:
        return Version(version).release


COMPANIONS = ("torchvision", "torchaudio")
_WITH_TORCH = ("pytorch", "pytorch-nightly", "main", "anaconda")
"""Channels beside conda-forge that have a pytorch of their own."""
_CONDA_TORCH = ("pytorch", "pytorch-gpu", "pytorch-cpu")


class FamilyRequirement(Struct, frozen=True):
    """A requirement for one package of the torch family.

    `local` is the local part of an exact pin (`cu126` of `torch==2.9.1+cu126`), `build` a match spec's build string.
    """

    name: str
    specifier: Specifier
    place: Place
    channel: Literal["pip", "conda"]
    local: str | None = None
    build: str | None = None

    @property
    def label(self) -> str:
        """The name in a message: "torch 2.9" of `torch==2.9.*`, "torch>=2.6,<2.8", or "torch"."""
        clauses = self.specifier.clauses
        if len(clauses) == 1 and clauses[0][0] in ("==", "==="):
            return f"{self.name} {clauses[0][1].removesuffix('.*')}"
        return f"{self.name}{self.specifier}"

    def admits(self, version: str) -> bool:
        """Return whether a release satisfies the requirement, whatever its local part."""
        return self.specifier.admits(f"{version}+{self.local}" if self.local else version)

    def versions(self) -> tuple[str, ...]:
        """List the known releases that satisfy the requirement, oldest first."""
        return tuple(version for version in known_releases(self.channel) if self.admits(version))

    def bounds(self) -> tuple[tuple[int, ...], ...]:
        """List the releases that the specifier names, as numbers."""
        return self.specifier.bounds()


def known_releases(channel: Literal["pip", "conda"]) -> tuple[str, ...]:
    """List the releases of torch in the tables, oldest first: wheels, or conda-forge's."""
    if channel == "pip":
        return tuple(release.version for release in torch_builds.releases())

    return tuple(conda_builds.versions())


def torch_of(spec: Spec, target: Target) -> FamilyRequirement | None:
    """Find the torch that a target asks for by name; conda-forge's if pip and conda both have one; None without one.

    A torch from an index of the spec's own, or from another channel, doesn't count: the tables don't describe it.
    """
    conda = [] if other_channel(spec, target) else _conda(spec.conda_dependencies(target))
    return next(iter(conda), None) or next((w for w in _pip(spec, target) if w.name == "torch"), None)


def other_channel(spec: Spec, target: Target) -> tuple[FamilyRequirement, str] | None:
    """Find a torch that comes from another channel than conda-forge, and the channel: of several channels the first
    that has one counts. None without such a torch."""
    for dependency in spec.conda_dependencies(target):
        named = dependency.text.rpartition("::")[0]
        channels = (
            [named] if named else [listed for listed in spec.conda.channels if listed in (*_WITH_TORCH, "conda-forge")]
        )
        if torches := _conda([dependency]):
            channel = next(iter(channels), next(iter(spec.conda.channels), "conda-forge"))
            return None if channel == "conda-forge" else (torches[0], channel)
    return None


def companions_of(spec: Spec, target: Target) -> tuple[FamilyRequirement, ...]:
    """Find the torchvision and torchaudio that a target asks for as wheels."""
    return tuple(w for w in _pip(spec, target) if w.name in COMPANIONS)


def builds_of(
    requirement: FamilyRequirement, versions: Iterable[str], cuda: str | None, platform: str
) -> list[CandidateBuild]:
    """List the builds of these releases from the source that `requirement` uses, wheels or conda-forge."""
    find = conda_builds_of if requirement.channel == "conda" else pip_builds
    builds = find(versions, cuda, platform)
    # one that was only announced counts where nothing else was asked for
    return [build for build in builds if build.trust != "planned"] or builds


def _pip(spec: Spec, target: Target) -> list[FamilyRequirement]:
    by_name: dict[str, FamilyRequirement] = {}
    terms = spec.pip_terms(target)
    dependencies = spec.pip_dependencies(target)
    named, overridden = ({requirement_name(line.text) for line in lines} for lines in (dependencies, terms.overrides))
    bounds = [line for line in (*terms.overrides, *terms.constraints) if requirement_name(line.text) in named]
    for dependency in (*(line for line in dependencies if requirement_name(line.text) not in overridden), *bounds):
        name = requirement_name(dependency.text)
        if name not in ("torch", *COMPANIONS) or name in spec.pip.sources:
            continue
        specifier = _specifier(dependency.text, target.platform, spec.full_python(target))
        if specifier is None:
            continue
        if name in by_name:  # the spec's and the target's own both hold
            specifier &= by_name[name].specifier
        by_name[name] = FamilyRequirement(name, specifier, dependency.place, "pip", specifier.local())
    return list(by_name.values())


def _specifier(text: str, platform: str, python: str) -> Specifier | None:
    """Read a requirement's specifier. None if it names a URL, or its marker excludes the target."""
    requirement = parse_requirement(text)
    left_out = requirement.url or not Markers(platform, python).hold(text)
    return None if left_out else parse(str(requirement.specifier))


def _conda(located: Iterable[Located]) -> list[FamilyRequirement]:
    torches = []
    for dependency in located:
        name, version, build = _match_spec(dependency.text)
        if name in _CONDA_TORCH:
            torches.append(FamilyRequirement(name, version, dependency.place, "conda", build=build))
    # pytorch itself says the version; pytorch-gpu beside it only asks for a CUDA build
    return sorted(torches, key=lambda w: (not w.specifier.clauses, w.name))


def newest_cudnn(match_specs: Iterable[str]) -> str | None:
    """Find the newest cuDNN that match specs on conda's admit, of the known ones and those that they name; None where
    they don't bound it."""
    bounds = [version for name, version, _ in map(_match_spec, match_specs) if name == "cudnn" and version.clauses]
    known = [row.version for row in libraries.of("nvidia-cudnn-cu12", "linux-64")]
    known += [number.removesuffix(".*") for specifier in bounds for _, number in specifier.clauses]
    fitting = [candidate for candidate in known if all(bound.admits(candidate) for bound in bounds)]
    return max(fitting, key=_release) if bounds and fitting else None


@lru_cache(maxsize=1 << 14)
def _match_spec(text: str) -> tuple[str, Specifier, str | None]:
    """Read name, version and build of a match spec. A version that PEP 440 can't express (`|`) counts as any."""
    text = text.split("::")[-1]
    opened, closed = text.find("["), text.rfind("]")
    text = (text[:opened] + text[closed + 1 :] if 0 <= opened < closed else text).strip()
    match = re.match(r"([\w.-]+)\s*(.*)", text)
    if not match:
        return text, Specifier(), None
    name, rest = match[1].lower(), match[2].strip()
    parts = rest.split()
    if len(parts) == 1 and (joined := re.fullmatch(r"=?([^=<>!~]+)=([^=<>!~]+)", parts[0])):
        parts = [joined[1], joined[2]]  # pytorch=2.9=cuda129*
        rest = f"={parts[0]}"
    version = parts[0] if parts else ""
    build = parts[1] if len(parts) > 1 else None
    if re.fullmatch(r"=\s*[\d.]+(\.\*)?", version):
        version = "==" + version.lstrip("= ").removesuffix(".*") + ".*"
    elif re.fullmatch(r"[\d.]+(\.\*)?", version):
        version = "==" + version
    try:
        return name, parse("" if version == "*" else version), build
    except ValueError:
        return name, Specifier(), build
