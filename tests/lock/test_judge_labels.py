"""The judge reads what a wheel's own label says it was built for."""

import pytest
from msgspec.structs import replace

from envspec.lock.judge import judge_target
from envspec.lock.model import Artifact, LockedTarget, Pin, SpecInputs, TargetInputs


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
