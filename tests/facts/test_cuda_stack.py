"""What belongs to the CUDA stack, by name."""

import pytest

from envspec.facts.cuda_stack import decides, extras_for, family_of, is_toolkit, stack_of


@pytest.mark.parametrize(
    ("name", "toolkit", "stack", "decider", "family"),
    [
        ("torch", False, "torch", True, None),
        ("torch-cu128", False, "torch", False, None),
        ("pytorch", False, None, True, None),
        ("pytorch-gpu", False, None, True, None),
        ("torchvision", False, "torch", False, None),
        ("triton", False, "torch", True, "triton"),
        ("pytorch-triton", False, "torch", True, "triton"),
        ("triton-windows", False, None, True, "triton"),
        ("nvidia-cudnn-cu12", True, "nvidia", True, "cudnn"),
        ("cudnn", False, None, True, "cudnn"),
        ("nvidia-nccl-cu13", True, "nvidia", True, "nccl"),
        ("nvidia-cuda-runtime-cu12", True, "nvidia", True, "cuda-runtime"),
        ("nvidia-cuda-runtime", True, "nvidia", True, "cuda-runtime"),
        ("nvidia-cublas-cu12", True, "nvidia", False, None),
        ("cuda-bindings", True, "nvidia", False, None),
        ("cuda-version", True, "nvidia", True, None),
        ("nvidia-ml-py", False, None, False, None),
        ("numpy", False, None, False, None),
        ("torchmetrics", False, None, False, None),
    ],
)
def test_names(name: str, toolkit: bool, stack: str | None, decider: bool, family: str | None) -> None:
    assert (is_toolkit(name), stack_of(name), decides(name), family_of(name)) == (toolkit, stack, decider, family)


@pytest.mark.parametrize(
    ("extras", "offered", "own"),
    [
        ("cu12", "cu12 cu13", "cu13"),
        ("cuda12-local", "cuda12-local cuda13-local", "cuda13-local"),
        ("cu12 tests", "cu12 cu13 tests", "cu13 tests"),
        ("cu12", "cu12", None),
        ("cu13", "cu12 cu13", None),
        ("tests", "cu13 tests", None),
    ],
)
def test_the_extra_of_another_cuda_has_a_counterpart(extras: str, offered: str, own: str | None) -> None:
    assert extras_for("13", extras.split(), offered.split()) == (frozenset(own.split()) if own else None)
