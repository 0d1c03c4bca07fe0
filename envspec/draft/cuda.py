"""The CUDA versions that match specs on conda's selectors (`cuda-version >=12.4,<12.9`) admit."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.facts import torch_builds
from envspec.facts.toolkits import cuda_releases
from envspec.packages.conda import admits
from envspec.packages.version_numbers import numbers

_PATCHES = 20
"""More patch releases than any CUDA had."""


def within(bounds: Iterable[str], versions: Iterable[str]) -> list[str]:
    """Choose the versions ("12.8") that all bounds admit, newest first. One that admits no minor version as it stands,
    as `==11.3.1`, admits those of whose patch releases it admits one."""
    chosen = set(versions)
    for bound in bounds:
        fitting = {version for version in chosen | _versions() if admits(f"cuda {bound}", version, "")}
        chosen &= fitting or {
            version
            for version in chosen | _versions()
            if any(admits(f"cuda {bound}", f"{version}.{patch}", "") for patch in range(_PATCHES))
        }
    return sorted(chosen, key=numbers, reverse=True)


def candidates(bounds: Iterable[str], platform: str) -> list[str]:
    """List the CUDA versions within these bounds for which a torch can be locked, newest first; without any, all that
    are known."""
    bounds = tuple(bounds)
    return within(bounds, torch_builds.lockable_cudas(platform) or ("12.8",)) or within(bounds, _versions())


def _versions() -> set[str]:
    return {release.version for release in cuda_releases()}
