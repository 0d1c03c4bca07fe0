"""Rules for torchvision and torchaudio: each release is made for certain torch releases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from envspec.base.finding import Finding
from envspec.facts import torch_builds
from envspec.rules.wanted import FamilyRequirement
from envspec.spec.way import Way


def findings(
    companion: FamilyRequirement, torch: FamilyRequirement | None, versions: Sequence[str], works: Callable[[str], bool]
) -> Iterator[Finding]:
    """Find the conflicts between a companion and the torch releases that the target admits. `works` returns whether a
    release of torch has a build that works on the target: no other is proposed."""
    known = _known_versions(companion.name)
    matching = [version for version in known if companion.admits(version)]
    if not matching:
        yield from _unknown(companion, known)
        return
    made_for = torches(companion)
    if torch is None or not versions or set(made_for) & set(versions):
        return
    own = [(v, version) for version in versions for v in torch_builds.companions(version).get(companion.name, ())]
    ways = [
        Way(line=f"{companion.name}=={v}", near=True, note=f"for torch {version}")
        for v, version in reversed(own)
        if works(version)
    ][:1]
    ways += [
        Way(line=f"torch=={version}", near=True, note=f"for {companion.label}")
        for version in reversed(made_for)
        if works(version)
    ][:1]
    span = made_for[0] if len(made_for) == 1 else f"{made_for[0]} to {made_for[-1]}"
    message = f"{companion.label} is made for torch {span}; the spec asks for {torch.label}"
    yield Finding("error", "companion-mismatch", message, companion.place, ways=tuple(ways))


def torches(companion: FamilyRequirement) -> list[str]:
    """List the torch releases that some admitted release of a companion is made for, oldest first."""
    releases = {
        torch
        for version in _known_versions(companion.name)
        if companion.admits(version)
        for torch in torch_builds.torch_for(companion.name, version)
    }
    return sorted(releases, key=torch_builds.order)


@cache
def _known_versions(name: str) -> tuple[str, ...]:
    versions = {v for release in torch_builds.releases() for v in torch_builds.companions(release.version)[name]}
    return tuple(sorted(versions, key=torch_builds.order))


def _unknown(companion: FamilyRequirement, known: Sequence[str]) -> Iterator[Finding]:
    bounds = companion.bounds()
    if bounds and max(bounds) > torch_builds.order(known[-1]):
        yield Finding(
            "info",
            "companion-newer-than-tables",
            f"{companion.label} is newer than the releases envspec knows (up to {known[-1]}): its METADATA decides"
            " which torch it needs",
            companion.place,
        )
    elif bounds and max(bounds) >= torch_builds.order(known[0]):
        yield Finding(
            "error",
            "no-such-companion",
            f"envspec knows no release that fits {companion.label}",
            companion.place,
            f"envspec knows {companion.name} {known[0]} to {known[-1]}",
        )
