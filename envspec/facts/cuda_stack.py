"""The CUDA stack: torch, its companions, its compiler, and the packages of NVIDIA's toolkit, by their names.

Names are normalised ones, of PyPI, the PyTorch indexes and conda-forge (where torch is `pytorch`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from itertools import product

from envspec.facts.toolkits import cuda_releases
from envspec.packages.names import is_of_extra, requirement_name

TORCH = frozenset({"torch", "pytorch", "pytorch-gpu", "pytorch-cpu"})
"""The names of torch itself."""

NOT_FOR_METADATA = ("torch", "torchvision", "torchaudio", "triton")
"""Packages that no build gets which is run for METADATA: the target's torch isn't known yet, another one may say
something else, and gigabytes of NVIDIA's packages come with each."""

_TORCH_AND_COMPILER = re.compile(r"(?:torch|torchvision|torchaudio|triton|pytorch-triton)(?:-cu\d+)?")
_TOOLKIT = re.compile(r"(?:nvidia-(?!ml-py)|cuda-).*", re.DOTALL)
_FOR_CUDA = re.compile(r"-cu\d+$")
_CUDA = re.compile(r"(-cu(?:da)?)(\d{2})(\d?)(?=x?(?:$|-))")
_DECIDES = re.compile(
    r"(?:nvidia-)?(?P<library>cudnn|nccl|cuda-runtime)(?:-cu\d+)?|(?:pytorch-)?(?P<compiler>triton)(?:-windows)?"
)


def is_toolkit(name: str) -> bool:
    """Return whether a package belongs to NVIDIA's toolkit or comes with it (cuDNN, NCCL): its version goes with its
    CUDA.

    False for nvidia-ml-py, which works with any driver.
    """
    return _TOOLKIT.fullmatch(name) is not None


VERSIONED_BY_CUDA = frozenset(
    (
        *("cuda-bindings", "cuda-python", "cuda-toolkit", "cuda-version"),
        *("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-nvjitlink"),
    )
)
"""Packages without a CUDA in their names that have the toolkit's version. Source of cuda-python's two: NVIDIA's support
policy of cuda.bindings, 12.9.11: it has the major and the minor of the toolkit, and any minor of its major will do."""


def same_library(package: str, other: str) -> bool:
    """Return whether two packages of the toolkit are one library, for two CUDA majors: nvidia-cublas-cu12 became
    nvidia-cublas with CUDA 13."""
    return is_toolkit(package) and is_toolkit(other) and _FOR_CUDA.sub("", package) == _FOR_CUDA.sub("", other)


def stack_of(name: str) -> str | None:
    """Name the layer of the stack that a package belongs to: "nvidia" for the toolkit; "torch" for torch, its
    companions and its compiler; else None."""
    if is_toolkit(name):
        return "nvidia"
    return "torch" if _TORCH_AND_COMPILER.fullmatch(name) else None


def cuda_major_in(name: str) -> str | None:
    """Read the CUDA major in a package's name (nvidia-cublas-cu12, cupy-cuda12x, nvidia-dali-cuda120, jax-cuda12-pjrt);
    None where it has none."""
    match = _CUDA.search(name)
    return match[2] if match else None


def extras_for(major: str, extras: Iterable[str], offered: Collection[str]) -> frozenset[str] | None:
    """Give a requirement's extras with those of another CUDA major (cu12, cuda12-local) as they are named for this one.
    None where there is none of another, or a release doesn't offer its counterpart."""
    own = frozenset(
        _CUDA.sub(lambda match: f"{match[1]}{major}{match[3]}", f"-{extra}", count=1)[1:] for extra in extras
    )
    return own if own != frozenset(extras) and own <= frozenset(offered) else None


_CUDAS_OWN = re.compile(
    r"nvidia-(?:cuda-[a-z-]+|cublas|cudnn|cufft|cufile|curand|cusolver|cusparse|cusparselt|nccl|npp|nvfatbin|nvjitlink"
    r"|nvjpeg|nvml-dev|nvptxcompiler|nvshmem|nvtx|nvvm)(?:-cu\d+)?"
)
"""The packages of CUDA's own libraries, which share their paths over all majors. Source: METADATA of cuda-toolkit
12.9.1 and 13.0.3.0, and of torch 2.13.0 and 2.14.1; PyPI, read 2026-11."""


def is_cudas_own(name: str) -> bool:
    """Return whether a package holds a library of CUDA's own, cuDNN, NCCL or NVSHMEM, by its exact name: DALI and
    nvCOMP, which are NVIDIA's too, have GPUs and a CUDA of their own."""
    return _CUDAS_OWN.fullmatch(name) is not None


def of_both_majors(requires: Mapping[str, Iterable[str]], major: str) -> dict[str, str]:
    """Find the packages for another CUDA major than `major` that their METADATA makes right beside it, each with its
    counterpart: a package requires both, so it loads the one that the driver runs. The older one it requires always;
    the newer one too, or by an extra, unless that is the foreign one. CUDA's own libraries aren't meant, nor what
    several packages bring together.

    `requires` has the Requires-Dist lines of each package. nvidia-cutlass-dsl 4.7 and newer are made so.
    """
    counterparts: dict[str, str] = {}
    for lines in requires.values():
        always: dict[str, bool] = {}
        for line in lines:
            if of_any_cuda(name := requirement_name(line)) is not None and not is_cudas_own(name):
                always[name] = always.get(name, False) or not is_of_extra(line)
        for name, other in product(always, repeat=2):
            own = cuda_major_in(name)
            if own == major or cuda_major_in(other) != major or of_any_cuda(name) != of_any_cuda(other):
                continue
            if always[name] and (int(str(own)) < int(major) or always[other]):
                counterparts[name] = other
    return counterparts


def of_any_cuda(name: str) -> str | None:
    """Give a package's name with its CUDA left open, the same for a project's builds for each (cupy-cuda12x and
    cupy-cuda13x: cupy-cuda##x). None where its name has no CUDA, or one of which there is no toolkit."""
    match = _CUDA.search(name)
    if match is None or not any(
        toolkit.version == f"{match[2]}.{match[3] or toolkit.version[3:]}" for toolkit in cuda_releases()
    ):
        return None
    return _CUDA.sub(lambda cuda: cuda[1] + "#" * len(cuda[2] + cuda[3]), name, count=1)


_COMPILED = frozenset(
    (
        *("bitsandbytes", "causal-conv1d", "ctranslate2", "deepspeed", "dgl", "flash-attn", "mamba-ssm"),
        *("onnxruntime-gpu", "pyg-lib", "sgl-kernel", "tensorflow", "torch-cluster", "torch-scatter", "torch-sparse"),
        *("torch-spline-conv", "torchao", "torchcodec", "vllm", "xformers"),
    )
)
"""Packages whose wheels hold code for GPUs, and that don't show it by their names."""
_NAMED = re.compile(r"[\w-]+-cu(?:da)?\d\d\d?x?(?:-[\w-]+)?")
"""cupy-cuda12x, jax-cuda12-plugin, transformer-engine-cu12."""
_FOR_GPUS = re.compile(r"cupy|[\w-]+-gpu")
"""Names of builds for GPUs alone. cupy is published as a source alone."""


def is_for_gpus(name: str) -> bool:
    """Return whether a wheel of this name is meant for GPUs, whoever built it: without code for any it is a CPU
    build."""
    return holds_code_for_gpus(name) or _NAMED.fullmatch(name) is not None


def holds_code_for_gpus(name: str) -> bool:
    """Return whether a project's code for GPUs stands in the wheel of this name itself; that of cudf-cu12 is
    libcudf's."""
    return name in _COMPILED or _FOR_GPUS.fullmatch(name) is not None


def family_of(name: str) -> str | None:
    """Name the family of a package, whatever CUDA its name says: "cudnn", "nccl", "cuda-runtime", "triton" or None."""
    match = _DECIDES.fullmatch(name)
    return (match["library"] or match["compiler"]) if match else None


def decides(name: str) -> bool:
    """Return whether a package decides which GPUs a target runs on: torch, `cuda-version`, or one with a family."""
    return name in TORCH or name == "cuda-version" or family_of(name) is not None
