"""The targets of a new spec, and the CUDA that suits their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from envspec.draft.model import Draft
from envspec.facts import gpus as gpu_facts
from envspec.facts import torch_builds
from envspec.packages.version_numbers import numbers
from envspec.rules.finding import Finding
from envspec.rules.judge import judge
from envspec.spec.model import Spec

_CPU_ALONE = ("osx-64", "osx-arm64")


@dataclass(frozen=True)
class NewTarget:
    """A target as a new spec has it."""

    name: str
    platform: str
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None


@dataclass(frozen=True)
class Machines:
    """What the user says of the machines: nothing, or part of it."""

    platforms: tuple[str, ...] = ()
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None


def new_targets(
    draft: Draft, machines: Machines, judged: Callable[[tuple[NewTarget, ...]], Spec]
) -> tuple[tuple[NewTarget, ...], tuple[Finding, ...]]:
    """Choose the targets, and say what speaks against them.

    Where GPUs are named and no CUDA is, the newest torch's CUDA on PyPI that works on them is taken, or else the
    newest that does. `judged` reads the spec with these targets.
    """
    platforms = machines.platforms or draft.platforms or ("linux-64",)
    named = machines.cuda or next((one for one in draft.cuda if one != "cpu"), None)
    if machines.cuda == "cpu" or not (named or machines.gpus or machines.driver):
        return _on(platforms, None, machines), ()
    first: tuple[Finding, ...] = ()
    for cuda in [named] if named else _candidates(platforms[0]):
        targets = _on(platforms, cuda, machines)
        spec = judged(targets)
        found = tuple(dict.fromkeys(one for target in spec.targets for one in judge(spec, target).errors))
        if not found:
            return targets, ()
        first = first or found
    return _on(platforms, named or next(_candidates(platforms[0])), machines), first


def _candidates(platform: str) -> Iterator[str]:
    """Yield CUDA versions: those of PyPI's torch, newest release first, then all that torch has builds for."""
    pypi = (torch_builds.pypi_variant(one.version, platform) for one in reversed(torch_builds.releases()))
    preferred = [cuda for variant in pypi if variant and (cuda := torch_builds.cuda_of(variant))]
    others = {one.cuda for one in torch_builds.builds(platform=platform) if one.cuda and one.trust != "planned"}
    yield from dict.fromkeys([*preferred, *sorted(others, key=numbers, reverse=True)])


def _on(platforms: Sequence[str], cuda: str | None, machines: Machines) -> tuple[NewTarget, ...]:
    found = []
    for platform in platforms:
        of_platform = None if platform in _CPU_ALONE else cuda
        base = "cpu" if of_platform is None else torch_builds.variant_of(of_platform) + _architecture(machines.gpus)
        name = base if len(platforms) == 1 else f"{base}-{platform}"
        with_gpu = of_platform is not None
        found.append(
            NewTarget(
                name,
                platform,
                of_platform,
                machines.gpus if with_gpu else (),
                machines.driver if with_gpu else None,
            )
        )
    return tuple(found)


def _architecture(names: Sequence[str]) -> str:
    """Return the architecture that all GPUs share, for a target's name."""
    found = {gpu.architecture.lower() for name in names for gpu in gpu_facts.find(name)}
    return f"-{next(iter(found)).replace(' ', '-')}" if len(found) == 1 else ""
