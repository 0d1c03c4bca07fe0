"""The guard after resolving: every CUDA package of a CUDA target belongs to the asked CUDA, and torch is no CPU build.

Reads names, versions and dependencies alone, so that it holds for releases no table knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from envspec.lock.inputs import requirement_name
from envspec.lock.model import Pin

# nvidia-cublas-cu12, cupy-cuda12x, nvidia-dali-cuda120, torch's +cu126
_SUFFIX = re.compile(r"-cu(?:da)?(\d{2})\d?x?(?:$|-)")
_LOCAL = re.compile(r"\+cu(\d{2})(\d)(?:$|\.)")

# From CUDA 13 on NVIDIA's wheels carry no suffix; these have the toolkit's own version (PyPI, read 2026-11).
_TOOLKIT_VERSIONED = (
    "cuda-toolkit",
    "nvidia-cuda-runtime",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-cupti",
    "nvidia-nvtx",
    "nvidia-nvjitlink",
)

_FAMILY = ("torch", "torchvision", "torchaudio")


def wrong_builds(pins: Sequence[Pin], cuda: str) -> tuple[str, ...]:
    """What in a CUDA target's pins doesn't belong to the asked CUDA ("12.8"), one sentence each; empty when all is
    right."""
    major = cuda.partition(".")[0]
    problems = []
    for pin in pins:
        found = _cuda_major(pin)
        if found is not None and found != major:
            problems.append(f"{pin.name} {pin.version} is for CUDA {found}")
    torch = next((pin for pin in pins if pin.name == "torch" and pin.kind == "pip"), None)
    if torch is not None:
        built = torch_cuda(torch, pins)
        if built is None:
            problems.append(f"torch {torch.version} from {torch.index} is a CPU build")
        elif built != cuda:
            problems.append(f"torch {torch.version} from {torch.index} is built for CUDA {built}")
        problems += [
            f"{pin.name} {pin.version} from {pin.index} is a CPU build"
            for pin in pins
            if pin.name in _FAMILY[1:] and pin.version.endswith("+cpu")
        ]
    return tuple(problems)


def torch_cuda(torch: Pin, pins: Sequence[Pin]) -> str | None:
    """The CUDA version a torch pin was built for, None for a CPU build: its local version says it, else the
    CUDA runtime it pins."""
    local = _LOCAL.search(torch.version)
    if local:
        return f"{local[1]}.{local[2]}"
    if "+" in torch.version:
        return None
    by_name = {pin.name: pin for pin in pins}
    for dependency in torch.dependencies:
        name = requirement_name(dependency)
        if name in by_name and (name == "cuda-toolkit" or name.startswith("nvidia-cuda-runtime")):
            return ".".join(by_name[name].version.split(".")[:2])
    return None


def _cuda_major(pin: Pin) -> str | None:
    suffix = _SUFFIX.search(pin.name)
    if suffix:
        return suffix[1]
    if pin.name in _TOOLKIT_VERSIONED:
        return pin.version.partition(".")[0]
    local = _LOCAL.search(pin.version)
    return local[1] if local else None
