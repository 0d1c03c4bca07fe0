"""On which GPU architectures each target runs: torch's build and its GPU libraries, by the GPU facts."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass

from envspec.facts import conda_builds, gpus, libraries, torch_builds
from envspec.facts.compute_capability import can_translate, capability_of, covers, order
from envspec.lock.model import LockedTarget, Pin
from envspec.review.diff.gpu_meaning import cuda_of
from envspec.review.report.model import CapabilityProducts, Cell, Coverage, CoverageRow

_LIBRARY = re.compile(r"nvidia-(cudnn|nccl)-cu\d\d")
_TITLES = {"cudnn": "cuDNN", "nccl": "NCCL"}
_PRODUCTS = 2


@dataclass(frozen=True)
class _Compiled:
    """What is compiled into a target's torch: `build` names it, or `why` says why nothing is known."""

    build: str | None = None
    why: str = ""
    sm: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    libraries: tuple[libraries.LibraryWheel, ...] = ()
    cuda: str | None = None


def coverage(targets: Sequence[LockedTarget]) -> Coverage:
    """Compare every target with every architecture that any target runs on or asks for."""
    compiled = [_compiled(target) for target in targets]
    asked = [_asked(target) for target in targets]
    sold = {gpu.capability for gpu in gpus.known() if gpu.kind != "embedded"}
    run = {c for one in compiled for c in sold if covers(one.sm, c, one.cuda) or can_translate(one.ptx, c)}
    shown = sorted(run.union(*asked), key=order)
    known = any(one.sm for one in compiled)
    meant = {gpu.name: None for target in targets for name in target.inputs.gpus for gpu in gpus.find(name)}
    return Coverage(
        architectures=tuple(_architecture(c, meant) for c in shown),
        rows=tuple(
            CoverageRow(place, one.build, one.why, tuple(_cell(one, c, c in asked[place]) for c in shown))
            for place, one in enumerate(compiled)
        ),
        nowhere=tuple(_architecture(c, meant) for c in sorted(sold.difference(shown), key=order)) if known else (),
    )


def _compiled(target: LockedTarget) -> _Compiled:
    torch = target.pin("torch", "pip") or target.pin("pytorch", "conda")
    if torch is None:
        return _Compiled(why="no torch")
    platform = target.inputs.platform
    cuda, label = cuda_of(torch, platform), f"{torch.name} {torch.version.partition('+')[0]}"
    if cuda is None:
        return _Compiled(label, "a build that the facts don't hold")
    if cuda == "cpu":
        return _Compiled(label, "a CPU build")
    builds = _builds(torch, cuda, platform)
    if not builds or not builds[0][0]:
        return _Compiled(f"{label}, CUDA {cuda}", "a build that the facts don't hold")
    (sm, ptx), beside = builds[0], []
    for pin in target.pins:
        found = libraries.library(pin.name, pin.version) if _LIBRARY.fullmatch(pin.name) else None
        if found:
            beside.append(found)
    return _Compiled(f"{label}, CUDA {cuda}", "", sm, ptx, tuple(beside), cuda)


def _builds(torch: Pin, cuda: str, platform: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    if torch.kind == "pip":
        return [(build.sm, build.ptx) for build in torch_builds.builds(torch.version, cuda, platform)]
    known = [build for build in conda_builds.builds(torch.version, platform=platform) if build.cuda == cuda]
    # a Jetson's own build is told by nothing in a lock, so it's the last that is meant
    return [(build.sm, build.ptx) for build in sorted(known, key=lambda build: build.arm_variant is not None)]


def _cell(compiled: _Compiled, capability: str, asked: bool) -> Cell:
    if compiled.why:
        return Cell("no" if compiled.why == "a CPU build" else "unknown", asked)
    without = [
        f"{_title(library.package)} has no code for it"
        for library in compiled.libraries
        if not covers(library.sm, capability, compiled.cuda) and not can_translate(library.ptx, capability)
    ]
    if covers(compiled.sm, capability, compiled.cuda):
        return Cell("library", asked, "; ".join(without)) if without else Cell("code", asked)
    return Cell("ptx" if can_translate(compiled.ptx, capability) else "no", asked)


def _title(package: str) -> str:
    match = _LIBRARY.fullmatch(package)
    return _TITLES[match[1]] if match else package


def _asked(target: LockedTarget) -> set[str]:
    """Return the capabilities of a target's own GPUs ("9.0" of sm_90)."""
    return {capability_of(sm) for sm in target.architectures}


def _architecture(capability: str, meant: Container[str]) -> CapabilityProducts:
    """Return its products, those that the targets are meant for first."""
    kinds = ("datacentre", "workstation", "consumer", "embedded")
    sold = [gpu for gpu in gpus.known() if gpu.capability == capability and gpu.kind in kinds]
    sold.sort(key=lambda gpu: (gpu.name not in meant, kinds.index(gpu.kind)))
    known = gpus.capabilities().get(capability)
    # "A100 40GB" and "A100 80GB" are one name here
    names = dict.fromkeys(re.sub(r"^GeForce | (\d+GB|Blackwell)$", "", gpu.name) for gpu in sold)
    return CapabilityProducts(capability, known.architecture if known else "", tuple(names)[:_PRODUCTS])
