"""A build of torch against a machine: architectures, cuDNN, Python and glibc."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.facts.compute_capability import can_translate, order, sm_of
from envspec.packages.version_numbers import numbers
from envspec.rules.case import CandidateBuild, Case, Problem

CUDNN_WITHOUT_VOLTA = "9.11"
"""The first cuDNN without machine code below 7.5 (fat binary scan, data/libraries.toml)."""


def problems(build: CandidateBuild, case: Case) -> list[Problem]:
    """Find every reason why this build doesn't fit this machine."""
    return [*architecture(build, case), *cudnn(build, case), *python(build, case), *glibc(build, case), *trust(build)]


def works(build: CandidateBuild, case: Case) -> bool:
    """Say whether the build has no error on this machine."""
    return not any(problem.severity == "error" for problem in problems(build, case))


def architecture(build: CandidateBuild, case: Case) -> Iterator[Problem]:
    """Judge whether the build has code for the machine's GPUs. The driver compiles PTX when it loads it."""
    for capability in case.capabilities:
        name = f"{sm_of(capability)} ({case.names(capability)})"
        if build.runs_on(capability):
            if jetson := [gpu.name for gpu in case.gpus if gpu.capability == capability and gpu.kind == "embedded"]:
                yield from _jetson(build, case, jetson[0])
        elif can_translate(build.ptx, capability):
            yield Problem(
                "warning",
                "ptx-only",
                "gpus",
                f"{label(build)} has no machine code for {name}, only PTX of {', '.join(build.ptx)}: the driver"
                " compiles every kernel at its first use, and must be as new as the build's CUDA",
            )
        else:
            yield Problem(
                "error",
                "architecture-missing",
                "gpus",
                f"{label(build)} has no code for {name}: it is compiled for {', '.join(build.sm)}",
            )


def _jetson(build: CandidateBuild, case: Case, name: str) -> Iterator[Problem]:
    if build.arm_variant == "tegra" or (
        build.cuda and numbers(build.cuda)[0] >= 13 and case.platform == "linux-aarch64"
    ):
        return
    yield Problem(
        "warning",
        "jetson",
        "gpus",
        f"{label(build)} is compiled for servers; a Jetson ({name}) runs it only from CUDA 13 on",
        "add an index with NVIDIA's wheels for this JetPack to the spec",
    )


def cudnn(build: CandidateBuild, case: Case) -> Iterator[Problem]:
    """Judge whether the build's cuDNN supports the GPUs: 9.11 dropped Maxwell, Pascal and Volta."""
    if not build.cuda or not (old := [c for c in case.capabilities if order(c) < (7, 5) and build.runs_on(c)]):
        return
    if build.channel == "conda":
        yield Problem(
            "warning",
            "cudnn-architecture",
            "gpus",
            f"cuDNN {CUDNN_WITHOUT_VOLTA} and newer have no code for {sm_of(old[0])}"
            f" ({case.names(old[0])}), and conda-forge's pytorch doesn't exclude them",
            f'add "cudnn <{CUDNN_WITHOUT_VOLTA}" to [conda] dependencies',
        )
    elif build.cudnn and numbers(build.cudnn) >= numbers(CUDNN_WITHOUT_VOLTA):
        yield Problem(
            "error",
            "cudnn-architecture",
            "gpus",
            f"{label(build)} requires cuDNN {build.cudnn}, which has no code for {sm_of(old[0])}"
            f" ({case.names(old[0])})",
        )


def python(build: CandidateBuild, case: Case) -> Iterator[Problem]:
    """Judge whether the build has a wheel for the spec's Python."""
    if not build.pythons or case.python in build.pythons:
        return
    new = numbers(case.python) > numbers(build.pythons[-1])
    yield Problem(
        "error",
        "python-too-new" if new else "python-too-old",
        "python",
        f"{label(build)} has no wheel for Python {case.python}: it has {build.pythons[0]} to {build.pythons[-1]}",
    )


def glibc(build: CandidateBuild, case: Case) -> Iterator[Problem]:
    """Judge the machine's glibc. A Linux build needs that of its manylinux tag, or of its symbols if that is newer."""
    if build.glibc and case.platform.startswith("linux") and numbers(case.glibc) < numbers(build.glibc):
        yield Problem(
            "error",
            "glibc-too-old",
            "glibc",
            f"{label(build)} needs glibc {build.glibc}, and the target's machines have {case.glibc}",
        )


def trust(build: CandidateBuild) -> Iterator[Problem]:
    """Warn of a build that is announced and has no published facts."""
    if build.trust == "planned":
        yield Problem(
            "warning",
            "build-not-seen",
            "torch",
            f"{label(build)} was announced; envspec has no published facts for it yet",
        )


def label(build: CandidateBuild) -> str:
    """Name a build in a message: "torch 2.9.1+cu126", or "conda-forge's pytorch 2.9.1 (cuda129)"."""
    if build.channel == "conda":
        return f"conda-forge's pytorch {build.version} ({build.variant})"
    return f"torch {build.version}+{build.variant}"
