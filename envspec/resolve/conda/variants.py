"""CUDA builds and CPU builds of packages, and the wrong ones in a solution.

conda's solver takes whatever fits. If no CUDA build fits (because of its CUDA, GPU architecture or Python), it silently
takes the CPU build of the same package.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from envspec.packages.conda_build import BuildRecord
from envspec.packages.names import conda_name
from envspec.packages.version_numbers import numbers_in


def base_constraints(cuda: str | None, asked: Iterable[str]) -> tuple[str, ...]:
    """Make match specs that keep every package to the target's CUDA, or CUDA out of a CPU target.

    `asked` are the packages of the spec: one that names CUDA's own packages in a CPU target gets them.
    """
    if cuda:
        return (f"cuda-version {'.'.join(cuda.split('.')[:2])}.*",)
    if any(name.startswith("cuda") for name in asked):
        return ()
    return ("cuda-version <0", "cudatoolkit <0")


def to_look_up(solution: Iterable[BuildRecord], cuda: str | None, excused: Container[str]) -> dict[str, str]:
    """List the siblings needed to judge a solution: package → match spec of its builds."""
    wanted = {}
    for build in solution:
        if build.name in excused or build.subdir == "noarch" or build.for_cuda == (cuda is not None):
            continue
        marked = build.for_cpu or (cuda is None)
        wanted[build.name] = build.name if marked else f"{build.name} =={build.version}"
    return wanted


def wrong_variants(
    solution: Iterable[BuildRecord], siblings: Iterable[BuildRecord], cuda: str | None
) -> list[BuildRecord]:
    """Find the builds of a solution for the wrong device if builds for the right one exist.

    A build counts as its package's CPU build if its name says so, or if the same version has a CUDA build that
    isn't older. A package that dropped CUDA, or never had it, is neither.
    """
    by_name: dict[str, list[BuildRecord]] = {}
    for sibling in siblings:
        by_name.setdefault(sibling.name, []).append(sibling)
    wrong = []
    for build in solution:
        others = by_name.get(build.name, [])
        if cuda is None:
            if build.for_cuda and any(not other.for_cuda for other in others):
                wrong.append(build)
        elif not build.for_cuda:
            right = [other for other in others if other.for_cuda]
            same = any(other.version == build.version and other.number >= build.number for other in right)
            if right and (build.for_cpu or same):
                wrong.append(build)
    return wrong


def excused(solution: Sequence[BuildRecord], chosen: Iterable[str]) -> frozenset[str]:
    """Find the packages whose build the spec chose: by name, and the CPU builds that belong with such a one."""
    tied: dict[str, set[str]] = {}
    cpu = {build.name for build in solution if build.for_cpu}
    for build in solution:
        for depend in build.depends if build.name in cpu else ():
            if (needed := conda_name(depend)) in cpu:
                tied.setdefault(build.name, set()).add(needed)
                tied.setdefault(needed, set()).add(build.name)
    waiting, found = list(chosen), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += tied.get(name, ())
    return frozenset(found)


def constraint(name: str, builds: Iterable[BuildRecord], cuda: str | None) -> str:
    """Make a match spec that admits only a package's builds for the right device."""
    own = [build for build in builds if build.name == name]
    right = [build for build in own if build.for_cuda == (cuda is not None)]
    wrong = [build for build in own if build.for_cuda != (cuda is not None)]
    mark = "cuda" if cuda else "cpu"
    if all(mark in build.string for build in right) and not any(mark in build.string for build in wrong):
        return f"{name} * *{mark}*"
    strings = sorted({build.string for build in right} - {build.string for build in wrong})
    return f'{name}[build="^({"|".join(map(re.escape, strings))})$"]'


def existing(
    name: str, builds: Iterable[BuildRecord], cuda: str, python: str, wanted: Sequence[str] = ()
) -> str | None:
    """Describe the existing CUDA builds of a package, the nearest to the asked CUDA first; None without any.

    `wanted` are the versions that the spec admits; empty for all.
    """
    known: dict[str, set[str]] = {}
    fits: list[str] = []
    for build in builds:
        if build.name == name and build.for_cuda and build.cuda and build.runs_on_python(python):
            known.setdefault(build.version, set()).add(build.cuda)
            if build.admits(cuda) and build.version not in fits:
                fits.append(build.version)
    if not known:
        return None
    asked = [version for version in known if version in wanted] or list(known)
    nearest = sorted(asked, key=lambda v: (min(_distance(c, cuda) for c in known[v]), _reversed(v)))[:4]
    listed = "; ".join(f"{v} for CUDA {', '.join(sorted(known[v], key=numbers_in))}" for v in nearest)
    text = f"existing CUDA builds of {name} for Python {python}: {listed}"
    others = sorted((v for v in fits if v not in nearest), key=_reversed)
    return text + (f"; {name} {others[0]} runs with CUDA {cuda}" if others else "")


def _distance(cuda: str, asked: str) -> int:
    (a, b), (c, d) = numbers_in(cuda)[:2], numbers_in(asked)[:2]
    return abs((a - c) * 20 + b - d)


def _reversed(version: str) -> tuple[int, ...]:
    return tuple(-number for number in numbers_in(version))
