"""The judge reads what a wheel's own label says it was built for."""

import pytest
from msgspec.structs import replace

from envspec.lock.judge import judge_target
from envspec.lock.model import Artifact, LockedTarget, Pin, SpecInputs, TargetInputs


def codes(*pins: Pin, cuda: str | None = "12.8") -> list[tuple[str, str | None]]:
    inputs = TargetInputs("linux-64", "3.12", "2.28", cuda)
    of_builds = ("built-for-another", "wrong-cuda", "cpu-build")
    flaws = judge_target(LockedTarget("t", inputs, pins), SpecInputs())
    return [(flaw.code, flaw.package) for flaw in flaws if flaw.code in of_builds]


def said(*pins: Pin, cuda: str | None = "12.8", platform: str = "linux-64") -> list[str]:
    inputs = TargetInputs(platform, "3.12", "2.28", cuda)
    flaws = judge_target(LockedTarget("t", inputs, pins), SpecInputs())
    return [flaw.message for flaw in flaws if flaw.code == "built-for-another"]


def pin(name: str, version: str, file: str | None = None, index: str = "url") -> Pin:
    return Pin("pip", name, version, index, Artifact(file, "0" * 64) if file else None)


TORCH = pin("torch", "2.8.0+cu128", index="pytorch/cu128")
SCATTER = pin("torch-scatter", "2.1.2+pt24cu118")
FLASH = pin("flash-attn", "2.8.3", "flash_attn-2.8.3+cu12torch2.5cxx11abiFALSE-cp312-cp312-linux_x86_64.whl")


def test_a_label_of_another_torch_and_cuda() -> None:
    assert said(TORCH, SCATTER) == [
        "torch-scatter 2.1.2+pt24cu118 is built for torch 2.4 and CUDA 11.8 by its label, but the target has"
        " torch 2.8.0+cu128 for CUDA 12.8"
    ]


def test_a_label_that_only_the_file_name_has() -> None:
    (sentence,) = said(TORCH, FLASH)
    assert "built for torch 2.5 and the older C++ ABI" in sentence


def test_a_label_beside_condas_torch() -> None:
    conda = Pin("conda", "pytorch", "2.4.1", "conda-forge/linux-64", None, build="cuda128_mkl_py312_h0_1")
    assert said(conda, replace(SCATTER, version="2.1.2+pt24cu121")) == []
    assert len(said(conda, SCATTER)) == 1
    # which C++ ABI conda's torch has, the tables of torch's wheels don't say
    assert said(conda, pin("flash-attn", "2.8.3+cu12torch2.4cxx11abitrue")) == []


@pytest.mark.parametrize(
    "fitting",
    [
        pin("torch-scatter", "2.1.2+pt28cu126"),
        pin("flash-attn", "2.8.3+cu12torch2.8cxx11abitrue"),
        pin("torchvision", "0.23.0+cu128", index="pytorch/cu128"),
        pin("acme", "1.0+ubuntu22"),
    ],
)
def test_a_label_that_fits(fitting: Pin) -> None:
    assert said(TORCH, fitting) == []


def test_without_torch_the_cuda_counts_alone() -> None:
    assert said(SCATTER) == [
        "torch-scatter 2.1.2+pt24cu118 is built for CUDA 11.8 by its label, but the target has CUDA 12.8"
    ]
    assert said(SCATTER, cuda=None) == []


@pytest.mark.parametrize(
    ("name", "version", "why"),
    [
        ("pytorch3d", "0.7.8+pt2.8.0rocm7.1", "built for AMD's ROCm 7.1 by its label"),
        ("flash-attn", "2.8.4+rocm71torch2.8cxx11abitrue", "built for AMD's ROCm 7.1 by its label"),
        ("vllm", "0.18.0+xpu", "built for Intel's GPUs (XPU) by its label"),
        ("detectron2", "0.6+cpu", "built for the CPU by its label"),
        ("natten", "0.21.6+cu128.torch210", "built for torch 2.10 by its label"),
        ("jax-rocm10-plugin", "0.12.0", "made for AMD's GPUs, but the target is for CUDA 12.8"),
        ("pytorch-triton-xpu", "3.5.0", "made for Intel's GPUs, but the target is for CUDA 12.8"),
    ],
)
def test_a_build_for_another_maker(name: str, version: str, why: str) -> None:
    (sentence,) = said(TORCH, pin(name, version))
    assert sentence.startswith(f"{name} {version} is {why}")
    if "+" not in version or "cpu" in version or "xpu" in version:
        assert said(pin(name, version), cuda=None) == []


@pytest.mark.parametrize("code", ["built-for-another", "other-vendor"])
def test_a_name_of_another_maker_that_the_spec_accepts(code: str) -> None:
    inputs = TargetInputs("linux-64", "3.12", "2.28", "12.8", accept=((f"{code}:jax-rocm10-plugin", "why"),))
    flaws = judge_target(LockedTarget("t", inputs, (pin("jax-rocm10-plugin", "0.12.0"),)), SpecInputs())
    assert not [one for one in flaws if one.code == "built-for-another"]


@pytest.mark.parametrize("index", ["pytorch/rocm6.4", "amd", "url"])
@pytest.mark.parametrize("local", ["rocm6.4", "xpu", "rocm7.2.0.lw.git7e1940d4"])
def test_torch_and_its_companions_for_another_maker(local: str, index: str) -> None:
    """Of a torch of one's own only its label says it: no lock says what is in its wheel."""
    other = pin("torch", f"2.8.0+{local}", index=index)
    assert codes(other) == [("wrong-cuda", "torch")]
    assert codes(TORCH, pin("torchvision", f"0.23.0+{local}", index=index)) == [("wrong-cuda", "torchvision")]
    assert codes(other, cuda=None) == []


def test_a_conda_build_for_another_maker() -> None:
    rocm = Pin("conda", "pytorch", "2.9.1", "own/linux-64", None, build="rocm72_py312_h1234567_0")
    assert codes(rocm) == [("wrong-cuda", "pytorch")]
    assert codes(rocm, cuda=None) == []
