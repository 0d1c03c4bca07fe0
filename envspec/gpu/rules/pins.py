"""Judging what a resolver picked: the rules again, on exact versions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from envspec.errors import Place
from envspec.gpu import torch_builds
from envspec.gpu.cubin import can_translate, covers
from envspec.gpu.finding import Finding
from envspec.gpu.rules import nearest
from envspec.gpu.rules.build import problems
from envspec.gpu.rules.case import Build, Case, Problem, conda_builds_of, pip_builds
from envspec.gpu.rules.judge import case_of, located
from envspec.gpu.rules.specifier import parse
from envspec.gpu.rules.wanted import COMPANIONS, Wanted, torch_of
from envspec.spec.model import Spec, Target

_VERSIONED_BY_CUDA = ("cuda-toolkit", "nvidia-cuda-runtime", "nvidia-cuda-nvrtc", "nvidia-nvjitlink", "cuda-version")
"""Packages without a `-cu12` suffix whose own version is the toolkit's."""


def judge_pins(
    spec: Spec, target: Target, pins: Mapping[str, str], builds: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """What the facts say against exact pins: normalised name -> version, the local part included (`2.9.1+cu126`).

    `builds` holds the build strings of conda packages. A torch without a local part is PyPI's own wheel. What the
    target alone decides (its driver, its CUDA against its GPUs) is `judge`'s, and wrong metadata is
    `envspec.gpu.corrections.corrections_broken_by`'s.
    """
    case = case_of(spec, target)
    wanted = torch_of(spec, target)
    found = [
        *_torch(case, pins),
        *_pytorch(case, pins, builds or {}),
        *_companions(pins),
        *_cuda_majors(case, pins),
        *_libraries(case, pins),
    ]
    return tuple(located(spec, target, wanted, problem) for problem in found)


def _torch(case: Case, pins: Mapping[str, str]) -> Iterator[Problem]:
    version = pins.get("torch")
    if version is None:
        return
    public, _, local = version.partition("+")
    if torch_builds.release(public) is None:
        yield _newer(f"torch {public}")
        return
    variant = local or torch_builds.pypi_variant(public, case.platform) or "cpu"
    if not re.fullmatch(r"cpu|cu\d+", variant):
        yield Problem("info", "torch-local-build", "torch", f"torch {version} is no build of PyTorch's own")
        return
    cuda = torch_builds.cuda_of(variant)
    name = f"torch {version}" + ("" if local else f" (PyPI's own wheel, {variant})")
    wrong = _wrong_cuda(case, name, cuda, exact=True)
    if wrong:
        yield wrong
        return
    found = pip_builds([public], cuda, case.platform)
    if not found:
        yield Problem("error", "no-build", "torch", f"{name} isn't among the builds for {case.platform}")
    yield from _of_build(case, "pip", public, found)


def _pytorch(case: Case, pins: Mapping[str, str], builds: Mapping[str, str]) -> Iterator[Problem]:
    version = pins.get("pytorch")
    if version is None:
        return
    string = builds.get("pytorch", "")
    match = re.match(r"cuda(\d+)(\d)|cpu", string)
    cuda = f"{match[1]}.{match[2]}" if match and match[1] else None
    if match:
        wrong = _wrong_cuda(case, f"pytorch {version} ({string})", cuda, exact=False)
        if wrong:
            yield wrong
            return
    found = [
        b for b in conda_builds_of([version], case.cuda, case.platform) if not match or b.cuda == cuda
    ]  # the asked minor admits older builds
    if not found:
        yield _newer(f"pytorch {version} {string}".rstrip())
    yield from _of_build(case, "conda", version, found[-1:])


def _of_build(case: Case, channel: Literal["pip", "conda"], version: str, builds: list[Build]) -> Iterator[Problem]:
    name = "torch" if channel == "pip" else "pytorch"
    wanted = Wanted(name, parse(f"=={version}"), Place(""), channel)
    machine = case if case.cuda else replace(case, gpus=())
    for build in builds:
        for problem in problems(build, machine):
            remedy = problem.remedy
            if problem.severity == "error" and remedy is None:
                remedy = nearest.sentence(nearest.alternatives(wanted, [version], case))
            yield replace(problem, remedy=remedy)


def _newer(name: str) -> Problem:
    message = f"envspec's tables don't hold {name}: its architectures aren't checked, its own METADATA decides the rest"
    return Problem("info", "torch-newer-than-tables", "torch", message)


def _wrong_cuda(case: Case, name: str, cuda: str | None, *, exact: bool) -> Problem | None:
    """A build of another CUDA than the target's. conda's run with a higher minor too, so there the major decides."""
    if cuda == case.cuda or (not exact and cuda and case.cuda and cuda.split(".")[0] == case.cuda.split(".")[0]):
        return None
    if cuda is None:
        message = f"{name} is the CPU build, in a target for CUDA {case.cuda}"
        return Problem("error", "cpu-build", "cuda", message, "take torch from the PyTorch index of this CUDA")
    if case.cuda is None:
        message = f"{name} is a build for CUDA {cuda}, in a CPU target"
        return Problem("error", "cuda-mismatch", "torch", message, "take torch from the PyTorch index for the CPU")
    message = f"{name} is a build for CUDA {cuda}, in a target for CUDA {case.cuda}"
    return Problem("error", "cuda-mismatch", "cuda", message, f"take torch from the PyTorch index of CUDA {case.cuda}")


def _companions(pins: Mapping[str, str]) -> Iterator[Problem]:
    torch = pins.get("torch", "").partition("+")
    for name in COMPANIONS:
        version = pins.get(name)
        fitting = torch_builds.companions(torch[0]).get(name, ())
        if version is None or not fitting:
            continue
        public, _, local = version.partition("+")
        if public not in fitting and torch_builds.torch_for(name, public):
            made_for = ", ".join(torch_builds.torch_for(name, public))
            message = f"{name} {version} is made for torch {made_for}, not for torch {torch[0]}"
            yield Problem("error", "companion-mismatch", "torch", message, f"Nearest: {name} {fitting[-1]}")
        elif local and torch[2] and local != torch[2] and re.fullmatch(r"cpu|cu\d+", local):
            message = f"{name} {version} and torch {''.join(torch)} are builds for different CUDA versions"
            yield Problem("error", "cuda-mismatch", "torch", message, f"take both from the index {torch[2]}")


def _cuda_majors(case: Case, pins: Mapping[str, str]) -> Iterator[Problem]:
    """Every CUDA package belongs to the target's CUDA major. In a CPU target they are only dead weight."""
    asked = case.cuda.split(".")[0] if case.cuda else None
    for name, version in sorted(pins.items()):
        suffix = re.fullmatch(r"[\w-]+-cu(?:da)?(\d\d)x?", name)
        if suffix:
            major = suffix[1]
        elif name in _VERSIONED_BY_CUDA:
            major = version.split(".")[0]
        else:
            continue
        if major == asked:
            continue
        place = f"a target for CUDA {case.cuda}" if case.cuda else "a CPU target"
        message = f"{name} {version} belongs to CUDA {major}, in {place}"
        hint = f"`envspec why` says what brings {name} in"
        yield Problem("error" if case.cuda else "warning", "cuda-major-mixed", "cuda", message, hint)


def _libraries(case: Case, pins: Mapping[str, str]) -> Iterator[Problem]:
    """cuDNN and NCCL have architecture lists of their own, and drop GPUs at other times than torch."""
    from envspec.gpu import libraries

    for name, version in sorted(pins.items()):
        if not re.fullmatch(r"nvidia-(cudnn|nccl)-cu\d\d", name):
            continue
        found = libraries.library(name, version)
        for capability in case.capabilities if found else ():
            if found is None or covers(found.sm, capability) or can_translate(found.ptx, capability):
                continue
            nccl = "nccl" in name
            yield Problem(
                "warning" if nccl else "error",
                "library-architecture",
                "gpus",
                f"{name} {version} has no code for sm_{capability.replace('.', '')} ({case.names(capability)})"
                + ("; it is used with several GPUs only" if nccl else ""),
                None if nccl else "take a torch whose build requires an older cuDNN",
            )
