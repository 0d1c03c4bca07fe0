"""A build of torch against a machine: architectures, cuDNN, Python and glibc."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts import gpus, libraries, toolkits, torch_builds, triton
from envspec.facts.compute_capability import can_translate, order, sm_of
from envspec.packages.version_numbers import numbers
from envspec.rules.case import CandidateBuild, Case, pip_builds
from envspec.spec.way import Way

CUDNN_WITHOUT_VOLTA = "9.11"
"""The first cuDNN without machine code below 7.5 (fat binary scan, data/libraries.toml)."""

OF_BUILDS = frozenset(
    ("ptx-newer-than-driver", "ptx-only", "architecture-missing", "cudnn-architecture", "triton-architecture",
     "triton-newer-than-tables", "python-too-new", "python-too-old", "glibc-too-old", "build-not-seen")
)  # fmt: skip
"""The codes of `problems`."""


def problems(build: CandidateBuild, case: Case) -> list[Finding]:
    """Find every reason why this build doesn't fit this machine."""
    return [
        *architecture(build, case),
        *cudnn(build, case),
        *(compiler(build.triton, case, build) if build.triton else ()),
        *python(build, case),
        *glibc(build, case),
        *trust(build),
    ]


def works(build: CandidateBuild, case: Case) -> bool:
    """Return whether the build has no error on this machine."""
    return not any(problem.severity == "error" for problem in problems(build, case))


def architecture(build: CandidateBuild, case: Case) -> Iterator[Finding]:
    """Judge whether the build has code for the machine's GPUs. The driver compiles PTX when it loads it."""
    for capability in case.capabilities:
        name = f"{sm_of(capability)} ({case.names(capability)})"
        if build.runs_on(capability):
            continue
        if can_translate(build.ptx, capability) and not compiles_ptx(case, build.cuda):
            yield Finding(
                "error",
                "ptx-newer-than-driver",
                f"{label(build)} has no machine code for {name}, only PTX of {', '.join(build.ptx)}, and driver"
                f" {case.driver} compiles none of CUDA {build.cuda}: minor-version compatibility leaves PTX out",
                key="gpus",
            )
        elif can_translate(build.ptx, capability):
            yield Finding(
                "warning",
                "ptx-only",
                f"{label(build)} has no machine code for {name}, only PTX of {', '.join(build.ptx)}: the driver"
                " compiles every kernel at its first use, and must be as new as the build's CUDA",
                key="gpus",
            )
        else:
            yield Finding(
                "error",
                "architecture-missing",
                f"{label(build)} has no code for {name}: it is compiled for {', '.join(build.sm)}",
                key="gpus",
            )


def compiles_ptx(case: Case, cuda: str | None) -> bool:
    """Return whether the target's driver compiles PTX of a CUDA: it must be as new as that. Unknown is yes."""
    toolkit = toolkits.toolkit(cuda) if cuda else None
    platform = toolkits.platform_of(case.driver, case.platform)
    native = toolkits.native_or_older(toolkit, platform) if toolkit else None
    return case.driver is None or native is None or toolkits.reaches(case.driver, native, integrated=case.integrated)


def compiler(version: str, case: Case, build: CandidateBuild | None = None) -> Iterator[Finding]:
    """Judge triton, with which torch.compile compiles kernels: its wheels have a ptxas of their own. Without a `build`
    of torch, triton is the only source of kernels, so an unsupported GPU has none."""
    known = triton.release(version) if case.platform.startswith("linux") else None
    user = "torch.compile" if build else f"triton {version}"
    if known is None and triton.is_newer(version) and case.capabilities:
        newest = triton.releases()[-1].version
        message = f"triton {version} is newer than any that envspec knows (up to {newest}): its compiler isn't judged"
        yield Finding("info", "triton-newer-than-tables", message, key="gpus")
    for capability in case.capabilities:
        if known is None or known.compiles_for(capability):
            continue
        if order(capability) < triton.LEAST:
            names, least = f"{sm_of(capability)} ({case.names(capability)})", ".".join(map(str, triton.LEAST))
            message = f"{user} doesn't work on {names}: triton compiles for {least} and newer"
            if build is None or build.runs_on(capability):
                # owners of such GPUs can do nothing, and the rest of torch works
                yield Finding("info" if build else "warning", "triton-architecture", message, key="gpus")
            continue
        cuda, variable = known.cuda_for(capability), known.variable_for(capability)
        first = gpus.capabilities()[capability].first_cuda
        newer = triton.first_for(capability, known.version)
        torch = _first_torch_with(newer, case) if newer and build else None
        ways = [Way(line=f"torch=={torch}", note="its triton compiles for it")] if torch else []
        if newer and build is None:
            ways = [Way(line=f"triton=={newer.version}")]
        yield Finding(
            "warning",
            "triton-architecture",
            f"{user} fails on {sm_of(capability)} ({case.names(capability)}): the compiler in triton"
            f" {known.version} is CUDA {cuda}'s, which doesn't know it",
            key="gpus",
            remedy=f"set {variable} to the ptxas of CUDA {first} or newer" if first else "run without torch.compile",
            ways=tuple(ways),
        )


def _first_torch_with(needed: triton.TritonRelease, case: Case) -> str | None:
    """Find the first torch that comes with this triton or a newer one, and has a build for the target's platform."""
    for release in torch_builds.releases():
        own = triton.release(release.triton)
        builds = pip_builds([release.version], case.cuda, case.platform)
        if (
            own
            and numbers(own.version) >= numbers(needed.version)
            and any(build.is_lockable(case.python) and works(build, case) for build in builds)
        ):
            return release.version
    return None


def cudnn(build: CandidateBuild, case: Case) -> Iterator[Finding]:
    """Judge whether the build's cuDNN supports the GPUs: 9.0 dropped Kepler, 9.11 Maxwell, Pascal and Volta."""
    old = [c for c in case.capabilities if order(c) < (7, 5) and build.runs_on(c)] if build.cuda else []
    if not old or build.cuda is None:
        return
    if build.channel == "conda":
        version = build.cudnn or case.cudnn
        if version is None or numbers(version) >= numbers(CUDNN_WITHOUT_VOLTA):
            older = f"cudnn <{CUDNN_WITHOUT_VOLTA}"
            yield Finding(
                "warning",
                "cudnn-architecture",
                f"cuDNN {CUDNN_WITHOUT_VOLTA} and newer have no code for {sm_of(old[0])}"
                f" ({case.names(old[0])}), and conda-forge's pytorch doesn't exclude them",
                key="gpus",
                ways=(Way(conda=older),),
            )
        return
    major = build.cuda.partition(".")[0]
    library = libraries.library(f"nvidia-cudnn-cu{major}", build.cudnn, case.platform) if build.cudnn else None
    dropped = [c for c in old if library and order(c) < min(map(order, library.sm))]
    if dropped:
        yield Finding(
            "error",
            "cudnn-architecture",
            f"{label(build)} requires cuDNN {build.cudnn}, which has no code for {sm_of(dropped[0])}"
            f" ({case.names(dropped[0])})",
            key="gpus",
        )


def python(build: CandidateBuild, case: Case) -> Iterator[Finding]:
    """Judge whether the build has a wheel for the spec's Python."""
    if not build.pythons or case.python in build.pythons:
        return
    new = numbers(case.python) > numbers(build.pythons[-1])
    yield Finding(
        "error",
        "python-too-new" if new else "python-too-old",
        f"{label(build)} has no wheel for Python {case.python}: it has {build.pythons[0]} to {build.pythons[-1]}",
        key="python",
    )


def glibc(build: CandidateBuild, case: Case) -> Iterator[Finding]:
    """Judge the machine's glibc. A Linux build needs that of its manylinux tag, or of its symbols if that is newer."""
    if build.glibc and case.platform.startswith("linux") and numbers(case.glibc) < numbers(build.glibc):
        yield Finding(
            "error",
            "glibc-too-old",
            f"{label(build)} needs glibc {build.glibc}, and the target's machines have {case.glibc}",
            key="glibc",
            ways=(Way(glibc=build.glibc),),
        )


def trust(build: CandidateBuild) -> Iterator[Finding]:
    """Warn of a build that is announced and has no published facts."""
    if build.trust == "planned":
        yield Finding(
            "warning",
            "build-not-seen",
            f"{label(build)} was announced; envspec has no published facts for it yet",
            key="torch",
        )


def label(build: CandidateBuild) -> str:
    """Name a build in a message: "torch 2.9.1+cu126", or "conda-forge's pytorch 2.9.1 (cuda129)"."""
    if build.channel == "conda":
        return f"conda-forge's pytorch {build.version} ({build.variant})"
    return f"torch {build.version}+{build.variant}"
