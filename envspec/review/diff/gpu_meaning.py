"""A change's meaning for GPUs, by envspec's facts about CUDA, drivers, torch's builds and GPU libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from envspec.facts import conda_builds, gpus, libraries, toolkits, torch_builds
from envspec.facts.build_labels import cuda_in
from envspec.facts.compute_capability import can_translate, capability_of, covers, order, sm_of
from envspec.facts.cuda_stack import decides, family_of
from envspec.lock.model import LockedTarget, Pin
from envspec.packages.version_numbers import numbers
from envspec.review.diff.jump import jump
from envspec.review.diff.rows import Fact, Risk

_TITLES = {"cudnn": "cuDNN", "nccl": "NCCL", "cuda-runtime": "CUDA runtime", "triton": "triton"}


_IN_URL = re.compile(r"(?:\+|%2[Bb])([\w.]+)-")
"""The local part in the name of a wheel, as a URL has it."""


def concerns(pin: Pin) -> bool:
    """Return whether a change of this package can matter to GPUs."""
    return decides(pin.name)


def meaning(old: LockedTarget, new: LockedTarget) -> Iterator[Fact]:
    """Return the facts of one target's change for its GPUs."""
    was, now = _Gpu.of(old), _Gpu.of(new)
    yield from _cuda(old, new, was, now)
    yield from _driver(old, new, was, now)
    yield from _gpus(old, new)
    yield from _architecture_change(old, new)
    yield from _torch(new, was, now)
    for family, title in _TITLES.items():
        yield from _library(family, title, new, was, now)


class _Gpu(Struct, frozen=True):
    """The facts that decide about the GPUs of one target. `cuda` is what torch was built for: "cpu", a version, or
    None if unknown."""

    torch: Pin | None
    cuda: str | None
    libraries: dict[str, Pin]
    oldest_driver: str | None

    @staticmethod
    def of(target: LockedTarget) -> _Gpu:
        torch: Pin | None = None
        libraries: dict[str, Pin] = {}
        for pin in target.pins:
            if pin.name == "torch" or (pin.name == "pytorch" and torch is None):
                torch = pin
            elif family := family_of(pin.name):
                libraries[family] = pin
        cuda = cuda_of_torch(torch, target.inputs.platform) if torch else None
        return _Gpu(torch, cuda, libraries, target.driver_floor or _oldest_driver(target, cuda))


def cuda_of_torch(torch: Pin, platform: str) -> str | None:
    """Return the CUDA version of a torch's build, "cpu", or None if unknown. For a version without a local part, the
    facts have PyPI's build for the platform: on most platforms, one for the CPU."""
    if torch.kind == "conda":
        match = re.match(r"(?:.*_)?cuda_?(\d{2})(\d)|(cpu)", torch.build or "")
        return (f"{match[1]}.{match[2]}" if match[1] else "cpu") if match else None
    public, _, local = torch.version.partition("+")
    variant: str | None = local
    if torch.url and (named := _IN_URL.search(torch.url)):
        variant = named[1]
    elif not local and torch.index.startswith("pytorch/"):
        # PyTorch's index for the CPU has releases without a local part
        variant = torch.index.removeprefix("pytorch/")
    elif not local:
        variant = torch_builds.pypi_variant(public, platform or "linux-64") if torch.index in ("", "pypi") else None
    return cuda_in(variant or "")


def _oldest_driver(target: LockedTarget, cuda: str | None) -> str | None:
    """Work out the oldest driver of a file that doesn't record one."""
    toolkit = target.inputs.cuda or cuda
    if toolkit is None or toolkit == "cpu":
        return None
    return toolkits.driver_floor(toolkit, target.inputs.platform or "linux-64")


def _cuda(old: LockedTarget, new: LockedTarget, was: _Gpu, now: _Gpu) -> Iterator[Fact]:
    """Compare the CUDA that the spec asks for, and the one that torch was built for."""
    requested = old.inputs.cuda, new.inputs.cuda
    if requested[0] != requested[1] and any(requested):
        if requested[1] is None:
            yield Fact("high", "cuda-dropped", f"CUDA {requested[0]} -> none: this is a CPU target now")
        elif requested[0] is None:
            yield Fact("medium", "cuda-moved", f"CUDA none -> {requested[1]}: this is a GPU target now")
        else:
            yield _cuda_move(requested[0], requested[1], "CUDA", None)
    elif was.cuda != now.cuda and was.cuda and now.cuda:
        name = now.torch.name if now.torch else None
        if now.cuda == "cpu":
            message = f"{name} is a CPU build now (was for CUDA {was.cuda}): it trains on the CPU without a warning"
            yield Fact("high", "cuda-to-cpu", message, package=name)
        elif was.cuda == "cpu":
            yield Fact(
                "medium", "cpu-to-cuda", f"{name} is a build for CUDA {now.cuda} now (was for the CPU)", package=name
            )
        else:
            yield _cuda_move(was.cuda, now.cuda, f"the CUDA of {name}", name)


def _cuda_move(old: str, new: str, what: str, package: str | None) -> Fact:
    major = old.split(".")[0] != new.split(".")[0]
    because = ": extensions compiled for the old major don't load" if major else ""
    return Fact("medium", "cuda-moved", f"{what} {old} -> {new}{because}", package=package)


def _driver(old: LockedTarget, new: LockedTarget, was: _Gpu, now: _Gpu) -> Iterator[Fact]:
    if was.oldest_driver is None or now.oldest_driver is None or was.oldest_driver == now.oldest_driver:
        return
    change = f"driver floor {was.oldest_driver} -> {now.oldest_driver}"
    machines = new.inputs.driver
    if not _older(was.oldest_driver, now.oldest_driver):
        if was.cuda == now.cuda and _hardware(old) == _hardware(new):
            message = f"{change}, though neither CUDA nor the GPUs changed: machines may be let in that can't run this"
            yield Fact("high", "driver-floor-lowered", message)
        else:
            yield Fact("low", "driver-floor-lowered", change)
    elif machines and not _older(machines, now.oldest_driver):
        yield Fact("low", "driver-floor-raised", f"{change}: the spec's machines have {machines}, which is enough")
    else:
        yield Fact("high", "driver-floor-raised", f"{change}: machines with an older driver can't run this")


def _older(driver: str, other: str) -> bool:
    """Return whether a driver is older than another. Drivers are dotted numbers; anything else counts as older."""
    try:
        return numbers(driver) < numbers(other)
    except ValueError:
        return True


def _gpus(old: LockedTarget, new: LockedTarget) -> Iterator[Fact]:
    gone = [gpu for gpu in old.inputs.gpus if gpu not in new.inputs.gpus]
    come = [gpu for gpu in new.inputs.gpus if gpu not in old.inputs.gpus]
    if gone:
        yield Fact("medium", "gpu-dropped", f"the target is no longer for {', '.join(gone)}")
    if come:
        yield Fact("low", "gpu-added", f"the target is for {', '.join(come)} too now")


def _architecture_change(old: LockedTarget, new: LockedTarget) -> Iterator[Fact]:
    """Yield a change of the recorded architectures that no change of the GPUs explains."""
    if old.architectures != new.architectures and old.inputs.gpus == new.inputs.gpus:
        was, now = (", ".join(target.architectures) or "none" for target in (old, new))
        message = f"architectures {was} -> {now}, though the spec asks for the same GPUs"
        yield Fact("high", "architectures-changed", message)


def _hardware(target: LockedTarget) -> tuple[object, ...]:
    return target.inputs.platform, target.inputs.cuda, set(target.inputs.gpus)


def _torch(new: LockedTarget, was: _Gpu, now: _Gpu) -> Iterator[Fact]:
    """Yield the architectures that torch's build gained or lost."""
    if now.torch is None or (was.torch is not None and _build(was.torch) == _build(now.torch)):
        return
    before, after = _compiled_architectures(was, new), _compiled_architectures(now, new)
    if after is None and now.cuda != "cpu" and (now.cuda or new.inputs.cuda or was.cuda not in (None, "cpu")):
        build = " ".join(filter(None, (now.torch.name, now.torch.version, now.torch.build)))
        message = f"{build} isn't in envspec's facts: whether it has code for the GPUs of this target is unknown"
        yield Fact("medium", "architectures-unknown", message, package=now.torch.name)
    elif before and after:
        yield from _architectures(f"{now.torch.name} {now.torch.version}", now.torch.name, before, after, new, "high")


def _build(torch: Pin) -> tuple[str | None, ...]:
    return torch.kind, torch.version, torch.build, torch.index


_Compiled = tuple[tuple[str, ...], tuple[str, ...], str | None]
"""Capabilities with machine code, those with PTX, and the CUDA that compiled them."""


def _compiled_architectures(gpu: _Gpu, target: LockedTarget) -> _Compiled | None:
    if gpu.torch is None or gpu.cuda in (None, "cpu"):
        return None
    platform = target.inputs.platform or "linux-64"
    compiled: list[_Compiled]
    if gpu.torch.kind == "conda":
        own = conda_builds.builds(gpu.torch.version, platform=platform)
        compiled = [
            (build.sm, build.ptx, build.cuda) for build in own if build.cuda == gpu.cuda and build.arm_variant is None
        ]
    else:
        builds = torch_builds.builds(gpu.torch.version, gpu.cuda, platform)
        compiled = [(build.sm, build.ptx, build.cuda) for build in builds]
    return compiled[0] if compiled and compiled[0][0] else None


def _library(family: str, title: str, new: LockedTarget, was: _Gpu, now: _Gpu) -> Iterator[Fact]:
    old_pin, new_pin = was.libraries.get(family), now.libraries.get(family)
    if old_pin is None or new_pin is None or (old_pin.name, old_pin.version) == (new_pin.name, new_pin.version):
        return
    # what the runtime package says is said already where the target's own CUDA moved
    if family == "cuda-runtime" and was.cuda != now.cuda:
        return
    far = jump(new_pin.kind, old_pin.version, new_pin.version).kind
    # a new torch brings its triton along
    alone = family == "triton" and was.torch is not None and was.torch == now.torch
    heavy = ("epoch", "major", "minor") if alone else ("epoch", "major")
    risk: Risk = "medium" if far in heavy else "low"
    message = f"{title} {old_pin.version} -> {new_pin.version}"
    if family == "triton" and risk == "medium":
        message += ": kernels are recompiled, and may behave differently"
    if old_pin.version != new_pin.version:
        yield Fact(risk, f"{family}-moved", message, package=new_pin.name)
    if family in ("cudnn", "nccl"):
        before, after = (libraries.library(pin.name, pin.version, new.inputs.platform) for pin in (old_pin, new_pin))
        # the table may only hold an older release than this: what that lost stays lost, and nothing else is known
        if before and after and before.version == old_pin.version:
            lost: Risk = "high" if family == "cudnn" else "medium"
            cudas = [None if side.cuda == "cpu" else side.cuda for side in (was, now)]
            compiled = (before.sm, before.ptx, cudas[0]), (after.sm, after.ptx, cudas[1])
            changes = _architectures(f"{title} {new_pin.version}", new_pin.name, *compiled, new, lost)
            exact = after.version == new_pin.version
            yield from (fact for fact in changes if exact or fact.code != "architecture-gained")


def _architectures(
    what: str, package: str, before: _Compiled, after: _Compiled, target: LockedTarget, lost_risk: Risk
) -> Iterator[Fact]:
    """Yield which GPUs no longer run, or run now. GPUs that the target doesn't ask for are included, at low risk."""
    known = sorted(gpus.capabilities(), key=order)
    lost = [c for c in known if _runs(before, c) and not _runs(after, c)]
    gained = [c for c in known if _runs(after, c) and not _runs(before, c)]
    requested = set(map(capability_of, target.architectures))
    own = [c for c in lost if c in requested]
    other = [c for c in lost if c not in own]
    if own:
        message = f"{what} has no code for {_sm_names(own)}, which this target asks for"
        yield Fact(lost_risk, "architecture-lost", message, package=package)
    if other:
        whose = ", which this target doesn't ask for" if requested else ""
        yield Fact(
            "low" if requested else "medium",
            "architecture-lost",
            f"{what} lost {_sm_names(other)}{whose}",
            package=package,
        )
    if gained:
        yield Fact("low", "architecture-gained", f"{what} gained {_sm_names(gained)}", package=package)


def _runs(compiled: _Compiled, capability: str) -> bool:
    sm, ptx, cuda = compiled
    return covers(sm, capability, cuda) or can_translate(ptx, capability)


def _sm_names(capabilities: list[str]) -> str:
    return ", ".join(map(sm_of, capabilities))
