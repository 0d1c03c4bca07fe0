"""Which wheels of a solved target are asked for their build: the GPUs, the CUDA and the torch that they are for."""

from __future__ import annotations

import re

from envspec.facts import neighbours, torch_builds
from envspec.facts.cuda_stack import stack_of
from envspec.facts.torch_builds import is_own_build
from envspec.lock.model import Pin
from envspec.packages.build_label import label_of
from envspec.packages.names import requirement_name
from envspec.resolve.wheels.model import Question

_COMPILED = frozenset(
    (
        *("bitsandbytes", "causal-conv1d", "ctranslate2", "deepspeed", "dgl", "flash-attn", "mamba-ssm"),
        *("onnxruntime-gpu", "pyg-lib", "tensorflow", "torch-cluster", "torch-scatter", "torch-sparse"),
        *("torch-spline-conv", "torchao", "torchcodec", "vllm", "xformers"),
    )
)
"""Packages whose wheels hold code for GPUs, and that don't show it by their names."""

_FOR_TORCH = ("dgl",)
"""Packages that have libraries for some releases of torch, and say so: that counts on a CPU too."""

_NAMED = re.compile(r"[\w-]+-cu(?:da)?\d\d\d?x?(?:-[\w-]+)?")
"""cupy-cuda12x, jax-cuda12-plugin, transformer-engine-cu12."""


def build_questions(pin: Pin, cuda: str | None, platform: str) -> frozenset[Question]:
    """Choose what to ask of a pin's wheel in a target of this CUDA. torch is asked where no table knows its build,
    others where they could hold code for GPUs."""
    if pin.kind != "pip" or not pin.is_wheel or pin.artifact is None or pin.artifact.file.endswith("-any.whl"):
        return frozenset()
    if cuda is None:
        known = pin.index == "pypi" and neighbours.of_release(pin.name, pin.version)
        return frozenset(("notes",)) if pin.name in _FOR_TORCH and not known else frozenset()
    asked = _no_table_knows(pin, platform) if pin.name == "torch" else _may_hold_code(pin, pin.artifact.file)
    return frozenset(("notes", "code")) if asked else frozenset()


def _no_table_knows(torch: Pin, platform: str) -> bool:
    public, _, local = torch.version.partition("+")
    if is_own_build(torch.version, torch.index):
        return True
    variant = local or torch_builds.pypi_variant(public, platform)
    return variant is None or not torch_builds.builds(public, variant=variant, platform=platform)


def _may_hold_code(pin: Pin, file: str) -> bool:
    # torch's companions and NVIDIA's libraries have tables of their own
    if stack_of(pin.name) is not None:
        return False
    if pin.name in _COMPILED or _NAMED.fullmatch(pin.name):
        return True
    needs_torch = any(requirement_name(line) == "torch" for line in pin.dependencies)
    return pin.index != "pypi" and (needs_torch or label_of(pin.version, file) is not None)
