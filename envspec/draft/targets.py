"""The targets of a new spec, and the CUDA that suits their GPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from envspec.base.finding import Finding
from envspec.draft.model import Draft, NewTarget, Note
from envspec.facts import gpus as gpu_facts, torch_builds
from envspec.packages.version_numbers import numbers
from envspec.rules.judge import Verdict, judge
from envspec.spec.model import Spec

CPU = NewTarget("cpu", "linux-64")
_CPU_ALONE = ("osx-64", "osx-arm64")


@dataclass(frozen=True)
class Machines:
    """The user's words about the machines: none, or part of them."""

    platforms: tuple[str, ...] = ()
    cuda: str | None = None
    gpus: tuple[str, ...] = ()
    driver: str | None = None


def new_targets(
    draft: Draft, machines: Machines, judged: Callable[[tuple[NewTarget, ...]], Spec]
) -> tuple[tuple[NewTarget, ...], tuple[Finding, ...]]:
    """Choose the targets, and say what speaks against them.

    Where GPUs are named and no CUDA is, the rules choose among those that torch has builds for. `judged` reads the spec
    with these targets.
    """
    if draft.targets:
        own = tuple(_on_machine(target, machines, alone=len(draft.targets) == 1) for target in draft.targets)
        verdicts = [judge(spec, target) for spec in [judged(own)] for target in spec.targets]
        return own, tuple(dict.fromkeys(one for verdict in verdicts for one in verdict.errors))
    platforms = machines.platforms or draft.platforms or ("linux-64",)
    named = machines.cuda or next((one for one in draft.cuda if one != "cpu"), None)
    if machines.cuda == "cpu" or not (named or machines.gpus or machines.driver):
        return _on(platforms, None, machines), ()
    found: list[tuple[_Rank, tuple[NewTarget, ...]]] = []
    against: tuple[Finding, ...] = ()
    candidates = [named] if named else _candidates(platforms[0])
    for cuda in candidates:
        targets = _on(platforms, cuda, machines)
        spec = judged(targets)
        verdicts = [judge(spec, target) for target in spec.targets]
        errors = tuple(dict.fromkeys(one for verdict in verdicts for one in verdict.errors))
        if not errors:
            found.append((_rank(verdicts[0], cuda, platforms[0]), targets))
        against = against or errors
    if found:
        return max(found, key=lambda one: one[0])[1], ()
    return _on(platforms, candidates[0], machines), against


def on_machines(draft: Draft, machines: Machines) -> Draft:
    """Return a draft without the targets of its file where the user says which there are: each becomes a note."""
    if not (draft.targets and (machines.platforms or machines.cuda)):
        return draft
    notes = [
        Note(
            f"the environment {one.name} is left out: {', '.join((*one.pip, *one.conda)) or 'it asks for nothing more'}"
        )
        for one in draft.targets
    ]
    return replace(draft, targets=(), notes=(*draft.notes, *notes))


def _on_machine(target: NewTarget, machines: Machines, *, alone: bool) -> NewTarget:
    """Return a target of the file with the machines that the user names."""
    named = target
    if target.cuda:
        named = replace(target, gpus=machines.gpus or target.gpus, driver=machines.driver)
    if not alone or target.name != "default":
        return named
    return replace(
        named, name="cpu" if not named.cuda else torch_builds.variant_of(named.cuda) + _architecture(named.gpus)
    )


_Rank = tuple[tuple[int, ...], bool, tuple[int, ...]]


def _rank(verdict: Verdict, cuda: str, platform: str) -> _Rank:
    """Return what makes one CUDA better than another: a newer torch, that release's build on PyPI, a newer CUDA."""
    newest = verdict.feasible[0] if verdict.feasible else None
    is_default = newest is not None and torch_builds.pypi_variant(newest, platform) == torch_builds.variant_of(cuda)
    return tuple(numbers(newest)) if newest else (), is_default, tuple(numbers(cuda))


def _candidates(platform: str) -> list[str]:
    """List the CUDA versions that torch has builds for, newest first."""
    known = {one.cuda for one in torch_builds.builds(platform=platform) if one.cuda and one.trust != "planned"}
    return sorted(known, key=numbers, reverse=True) or ["12.8"]


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
