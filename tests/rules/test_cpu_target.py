"""What is made for CUDA, in a target without it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from envspec.base.errors import Place
from envspec.facts.gpu_only import gpu_only, needs_gpu
from envspec.rules.neighbours import Origin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.spec.model import Located, PipTable, Spec, Target

HERE = Place("specs/s.toml", 1, 1)


def told(
    pins: Mapping[str, str], needs: Mapping[str, list[str]] | None = None, cuda: str | None = None
) -> list[tuple[str, str, str]]:
    target = Target("t", "linux-64", cuda, glibc="2.28", place=HERE)
    spec = Spec("specs/s.toml", "s", "3.12", (target,), pip=PipTable((Located("torch", HERE),)))
    return [
        (finding.severity, finding.code, finding.message)
        for finding in judge_pins(spec, target, PinnedVersions(pins, needs=needs or {}))
    ]


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("vllm", "0.11.0", ": its wheels on PyPI are CUDA builds"),
        ("xformers", "0.0.35", ": its extensions load only with a CUDA build of torch"),
        ("bitsandbytes", "0.45.5", ": its kernels are for CUDA only"),
        ("onnxruntime-gpu", "1.22.0", ""),
        ("nvidia-dali-cuda120", "1.50.0", ""),
        ("torch-scatter", "2.1.2+pt24cu118", ""),
        ("flash-attn", "2.8.3+cu12torch2.5cxx11abifalse", ""),
    ],
)
def test_made_for_cuda(name: str, version: str, why: str) -> None:
    message = f"{name} {version} is made for CUDA, and this is a CPU target{why}"
    assert told({name: version}) == [("warning", "gpu-only", message)]
    assert not any(code == "gpu-only" for _, code, _ in told({name: version}, cuda="12.8"))


@pytest.mark.parametrize(
    ("name", "version", "maker"),
    [
        ("jax-rocm10-plugin", "0.12.0", "AMD's GPUs"),
        ("cupy-rocm-7-0", "14.0.1", "AMD's GPUs"),
        ("pytorch-triton-rocm", "3.5.1", "AMD's GPUs"),
        ("pytorch-triton-xpu", "3.5.0", "Intel's GPUs"),
        ("flash-attn", "2.8.4+rocm71torch2.10cxx11abitrue", "AMD's ROCm 7.1"),
        ("torch", "2.9.1+rocm6.4", "AMD's ROCm 6.4"),
        ("torchvision", "0.24.1+xpu", "Intel's GPUs (XPU)"),
        ("triton", "3.5.1+rocm7.2.0.gita272dfa8", "AMD's ROCm 7.2.0"),
        ("deep-ep", "1.2.1+cu.12.8.torch.2.10", "CUDA"),
    ],
)
def test_made_for_gpus_of_either_maker(name: str, version: str, maker: str) -> None:
    message = f"{name} {version} is made for {maker}, and this is a CPU target"
    assert told({name: version}) == [("warning", "gpu-only", message)]


def test_a_label_that_the_file_alone_has_counts() -> None:
    target = Target("t", "linux-64", None, glibc="2.28", place=HERE)
    spec = Spec("specs/s.toml", "s", "3.12", (target,), pip=PipTable((Located("flash-attn", HERE),)))
    origin = Origin("url", "flash_attn-2.8.4+rocm71torch2.10cxx11abiTRUE-cp312-cp312-linux_x86_64.whl")
    (found,) = judge_pins(spec, target, PinnedVersions({"flash-attn": "2.8.4"}, origins={"flash-attn": origin}))
    assert (found.code, found.severity) == ("gpu-only", "warning") and "AMD's ROCm 7.1" in found.message


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("libtpu", "0.0.30"),
        ("acme", "1.0+cpu"),
        ("acme", "1.0+computecanada"),
        ("bitsandbytes", "0.48.0"),
        ("faiss-cpu", "1.12.0"),
        ("numpy", "2.2.6"),
        ("torch", "2.9.1+cpu"),
        ("gpustat", "1.1"),
    ],
)
def test_works_without(name: str, version: str) -> None:
    assert told({name: version}) == []


def test_it_stands_at_the_targets_platform() -> None:
    there = Place("specs/s.toml", 9, 1)
    target = Target("t", "linux-64", None, glibc="2.28", place=HERE, places={"platform": there})
    spec = Spec("specs/s.toml", "s", "3.12", (target,), pip=PipTable((Located("torch", HERE),)))
    (found,) = judge_pins(spec, target, PinnedVersions({"vllm": "0.11.0"}, needs={}))
    assert (found.code, found.place) == ("gpu-only", there)


def test_who_brings_cudas_packages_in_is_named_once() -> None:
    pins = {"ray": "2.60.0", "cupy-cuda12x": "13.6.0", "xgboost": "3.1", "nvidia-nccl-cu12": "2.28.9", "numpy": "2.2.6"}
    needs = {"ray": ["cupy-cuda12x", "numpy"], "cupy-cuda12x": ["numpy"], "xgboost": ["nvidia-nccl-cu12", "numpy"]}
    assert told(pins, needs) == [
        ("warning", "cuda-major-mixed", f"{line}, which has no use in a CPU target")
        for line in ("ray 2.60.0 requires cupy-cuda12x", "xgboost 3.1 requires nvidia-nccl-cu12")
    ]


def test_one_that_the_spec_itself_asks_for() -> None:
    assert told({"cupy-cuda12x": "13.6.0"}, {"cupy-cuda12x": ["numpy"]}) == [
        ("warning", "cuda-major-mixed", "cupy-cuda12x 13.6.0 belongs to CUDA 12, and this is a CPU target")
    ]


def test_the_table_is_in_order_and_of_its_platforms_alone() -> None:
    names = [row.name for row in gpu_only()]
    assert names == sorted(names)
    assert needs_gpu("vllm", "0.11.0", "osx-arm64") is None
    row = needs_gpu("vllm", "0.11.0rc1", "linux-64")
    assert row is not None and row.sources
