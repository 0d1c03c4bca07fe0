"""One version of a conda package across targets: the requests worth a second solve so that targets agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from envspec.packages.conda_build import BuildRecord
from envspec.packages.names import conda_name
from envspec.resolve.conda.request import CondaRequest

Admits = Callable[[str, BuildRecord], bool]
"""Say whether a match spec (one of a record's `depends`) admits a build."""


def shared_versions(
    solved: Mapping[CondaRequest, Sequence[BuildRecord]], admits: Admits
) -> dict[CondaRequest, dict[str, str]]:
    """Give the preferences of each request that is worth a second solve: name → version, and the build if it stays.

    Packages that differ between requests may agree on the lowest version that any of them has. CUDA's own packages
    differ by their nature, and versions that the rest of a solution excludes aren't tried. Empty if nothing can move.
    """
    lowest: dict[str, BuildRecord] = {}
    for builds in solved.values():
        for build in builds:
            known = lowest.get(build.name)
            if not build.for_cuda and (known is None or _order(build.version) < _order(known.version)):
                lowest[build.name] = build
    again = {}
    for request, builds in solved.items():
        own = {build.name: build for build in builds}
        moving = {
            name: lowest[name]
            for name, build in own.items()
            if not build.for_cuda and name in lowest and lowest[name].version != build.version
        }
        moving = _movable(own, moving, admits)
        if moving:
            kept = {name: f"{build.version} {build.string}" for name, build in own.items()}
            again[request] = kept | {name: build.version for name, build in moving.items()}
    return again


def _movable(
    own: Mapping[str, BuildRecord], moving: Mapping[str, BuildRecord], admits: Admits
) -> dict[str, BuildRecord]:
    """Find the packages that can move together while all others stay."""
    left = dict(moving)
    while left:
        after = {**own, **left}
        stuck = set()
        for build in after.values():
            for depend in build.depends:
                name = conda_name(depend)
                if (name in left or build.name in left) and name in after and not admits(depend, after[name]):
                    # whichever of the two moves is the one that can't
                    stuck.add(build.name if build.name in left else name)
        if not stuck:
            break
        for name in stuck:
            del left[name]
    return left


def _order(version: str) -> tuple[tuple[int, str], ...]:
    parts = re.findall(r"\d+|[a-z]+", version.lower())
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)
