"""Locking a spec, from the parsed spec to the new lock: the flow of DESIGN §2 in one place, with its I/O passed in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from envspec.errors import InputError, InternalError, SpecError, WrongBuild
from envspec.gpu import gpus, toolkits
from envspec.lock.inputs import canonical_name, spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.verify import violations
from envspec.resolve.cuda_check import wrong_builds
from envspec.resolve.request import Preferences, Request, request_for
from envspec.spec.model import Spec, Target


class Resolver(Protocol):
    """What turns requests into pins. `keep` holds, by target, versions to stay with where they still fit."""

    def resolve(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> Mapping[str, tuple[Pin, ...]]: ...


@dataclass(frozen=True)
class Upgrade:
    """What of an old lock may move: all of it, or the packages named (normalised)."""

    everything: bool = False
    packages: frozenset[str] = frozenset()


def relock(
    spec: Spec,
    old: Lock | None,
    resolver: Resolver,
    *,
    upgrade: Upgrade = Upgrade(),  # noqa: B008 - frozen
    only: Collection[str] = (),
) -> Lock:
    """A new lock of `spec`.

    Takes the old lock, whose pins stay where they still satisfy the spec, and the targets to lock anew (all by default; the others
    keep what `old` has for them).

    Raises SpecError for what no table knows (a GPU), InputError for a wrong `only`, WrongBuild when a build of another CUDA or a CPU build got
    in, InternalError when the result contradicts itself, and what the resolver raises.
    """
    targets = _chosen(spec, old, only)
    architectures = {target.name: architectures_of(target) for target in targets}
    shared = spec_inputs(spec)
    inputs = {target.name: target_inputs(spec, target) for target in targets}
    requests = {name: request_for(shared, values) for name, values in inputs.items()}
    pins = resolver.resolve(requests, {} if upgrade.everything else _kept(old, upgrade.packages))
    locked = []
    for target in targets:
        solved = tuple(sorted(pins[target.name], key=lambda pin: (pin.kind, pin.name)))
        _refuse_wrong_builds(target, solved)
        made = LockedTarget(
            name=target.name,
            inputs=inputs[target.name],
            pins=solved,
            architectures=architectures[target.name],
            driver_floor=toolkits.driver_floor(target.cuda, target.platform) if target.cuda else None,
        )
        problems = violations(made)
        if problems:
            raise InternalError(
                f"{target.name}: the resolution contradicts itself: {'; '.join(problems[:5])}",
                hint="nothing was written; please report this with the spec",
            )
        locked.append(made)
    done = {target.name for target in targets}
    names = {target.name for target in spec.targets}
    locked += [target for target in old or () if target.name in names - done]
    return Lock(name=spec.name, inputs=shared, targets=tuple(sorted(locked, key=lambda target: target.name)))


def architectures_of(target: Target) -> tuple[str, ...]:
    """The compute capabilities of a target's GPUs as "sm_90", oldest first. Raises SpecError for a GPU that no table knows."""
    capabilities = set()
    for name in target.gpus:
        found = gpus.find(name)
        if not found:
            near = gpus.suggest(name)
            raise SpecError(
                f'unknown GPU "{name}" in target {target.name}',
                hint=f'did you mean "{near}"?' if near else '`envspec gpus` lists the known ones; "sm_90" or "hopper" work too',
                place=target.places.get("gpus", target.place),
            )
        capabilities |= {gpu.capability for gpu in found}
    return tuple("sm_" + capability.replace(".", "") for capability in sorted(capabilities, key=gpus.order))


def capability_of(gpu: str) -> str | None:
    """The compute capability of a GPU ("9.0"), None when it's unknown or the name stands for several."""
    capabilities = {found.capability for found in gpus.find(gpu)}
    return capabilities.pop() if len(capabilities) == 1 else None


def _chosen(spec: Spec, old: Lock | None, only: Collection[str]) -> tuple[Target, ...]:
    if not only:
        return spec.targets
    unknown = sorted(set(only) - {target.name for target in spec.targets})
    if unknown:
        raise InputError(
            f"{spec.path} has no target {', '.join(unknown)}", hint=f"its targets: {', '.join(target.name for target in spec.targets)}"
        )
    if old is not None and old.inputs != spec_inputs(spec) and set(only) != {target.name for target in spec.targets}:
        raise InputError(
            f"{spec.path} changed in what all its targets share, so they must be locked together", hint="leave out --target"
        )
    return tuple(target for target in spec.targets if target.name in only)


def _kept(old: Lock | None, moving: frozenset[str]) -> dict[str, Preferences]:
    if old is None:
        return {}
    free = frozenset(canonical_name(name) for name in moving)
    return {
        target.name: Preferences({pin.name: pin.version for pin in target.pins if pin.kind == "pip" and not pin.git}).without(free)
        for target in old
    }


def _refuse_wrong_builds(target: Target, pins: tuple[Pin, ...]) -> None:
    if target.cuda is None:
        return
    wrong = wrong_builds(pins, target.cuda)
    if wrong:
        raise WrongBuild(
            f"{target.name} asks for CUDA {target.cuda}, but {'; '.join(wrong)}",
            hint=f"`envspec builds torch --cuda {target.cuda}` lists the builds that fit; nothing was written",
            place=target.places.get("cuda", target.place),
        )


