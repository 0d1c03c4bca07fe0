"""The guard after resolving: no other CUDA, no CPU build."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from envspec.lock.model import Artifact, LockedTarget, Pin, SpecInputs, TargetInputs, WheelVariant
from envspec.lock.rules.case import LockedCase
from envspec.lock.rules.cuda import torch_cuda, wrong_builds, wrong_variants


def wrong(pins: Iterable[Pin], cuda: str | None, accept: tuple[tuple[str, str], ...] = ()) -> list[str]:
    inputs = TargetInputs("linux-64", "3.12", "2.28", cuda, accept=accept)
    return [
        flaw.message.partition(", but the target asks")[0]
        for flaw in wrong_builds(LockedCase(LockedTarget("t", inputs, tuple(pins)), SpecInputs()))
    ]


def pin(name: str, version: str, *dependencies: str, index: str = "pypi") -> Pin:
    return Pin("pip", name, version, index, None, dependencies)


CU126 = (pin("torch", "2.9.1+cu126", index="pytorch/cu126"), pin("nvidia-cublas-cu12", "12.6.4.1"))
DEFAULT = (
    pin("torch", "2.9.1", "nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'"),
    pin("nvidia-cuda-runtime-cu12", "12.8.90"),
    pin("nvidia-cudnn-cu12", "9.10.2.21"),
)
CU130 = (
    pin("torch", "2.12.0", "cuda-toolkit[cublas,cudart]==13.0.2"),
    pin("cuda-toolkit", "13.0.2"),
    pin("nvidia-cuda-runtime", "13.0.96"),
    pin("nvidia-cudnn-cu13", "9.20"),
    pin("nvidia-cublas", "13.1.0.3"),
)


def test_another_cuda_is_accepted_of_any_package_but_torchs_own() -> None:
    pins = (*DEFAULT, pin("cupy-cuda13x", "14.0"), pin("torchvision", "0.24.1+cu130", index="pytorch/cu130"))
    told = ["cupy-cuda13x 14.0 is for CUDA 13", "torchvision 0.24.1+cu130 is for CUDA 13"]
    assert wrong(pins, "12.8") == told
    assert wrong(pins, "12.8", (("cuda-major-mixed", "known"),)) == told[1:]


@pytest.mark.parametrize(
    ("label", "properties", "cuda", "right"),
    [
        ("cpu", (), None, True),
        ("cpu", (), "12.8", False),
        ("cu128", ("nvidia :: cuda_version_lower_bound :: 12.8",), "12.8", True),
        ("cu128", ("nvidia :: cuda_version_lower_bound :: 12.8",), None, False),
        ("cu126", ("nvidia :: cuda_version_lower_bound :: 12.6",), "12.8", False),
    ],
)
def test_a_variant_of_torch(label: str, properties: tuple[str, ...], cuda: str | None, right: bool) -> None:
    artifact = Artifact("torch.whl", "0" * 64, variant=WheelVariant(label, properties))
    assert (wrong([replace(pin("torch", "2.9.1"), artifact=artifact)], cuda) == []) is right


@pytest.mark.parametrize(
    ("name", "accepted", "right"), [("acme", False, False), ("acme", True, True), ("torch", True, False)]
)
def test_a_variant_for_cpus_is_accepted_of_any_package_but_torchs_own(name: str, accepted: bool, right: bool) -> None:
    artifact = Artifact(f"{name}-1-py3-none-any-null.whl", "0" * 64, variant=WheelVariant("null", (), ("nvidia",)))
    accept = (("cpu-variant", "known"),) if accepted else ()
    inputs = TargetInputs("linux-64", "3.12", "2.28", "12.8", accept=accept)
    case = LockedCase(LockedTarget("t", inputs, (replace(pin(name, "1"), artifact=artifact),)), SpecInputs())
    assert [flaw.code for flaw in wrong_variants(case)] == ([] if right else ["cpu-variant"])


@pytest.mark.parametrize(("pins", "cuda"), [(CU126, "12.6"), (DEFAULT, "12.8"), (CU130, "13.0"), ((), "12.8")])
def test_right(pins: tuple[Pin, ...], cuda: str) -> None:
    assert wrong(pins, cuda) == []


@pytest.mark.parametrize(
    ("pins", "cuda", "problems"),
    [
        (CU126, "12.8", ["torch 2.9.1+cu126 from pytorch/cu126 is built for CUDA 12.6"]),
        (DEFAULT, "12.6", ["torch 2.9.1 from pypi is built for CUDA 12.8"]),
        (
            (pin("torch", "2.9.1+cpu", index="pytorch/cpu"),),
            "12.8",
            ["torch 2.9.1+cpu from pytorch/cpu is a CPU build"],
        ),
        ((pin("torch", "2.9.1", "filelock"),), "12.8", ["torch 2.9.1 from pypi is a CPU build"]),
        ((*DEFAULT, pin("cupy-cuda13x", "14.0")), "12.8", ["cupy-cuda13x 14.0 is for CUDA 13"]),
        ((*DEFAULT, pin("cupy-cuda11x", "13.0")), "12.8", ["cupy-cuda11x 13.0 is for CUDA 11"]),
        ((*DEFAULT, pin("nvidia-dali-cuda110", "1.5")), "12.8", ["nvidia-dali-cuda110 1.5 is for CUDA 11"]),
        ((*DEFAULT, pin("flash-attn", "2.8+cu118torch2.1")), "12.8", []),
        (
            (*DEFAULT, pin("torchvision", "0.24.1+cpu", index="pytorch/cpu")),
            "12.8",
            ["torchvision 0.24.1+cpu from pytorch/cpu is a CPU build"],
        ),
        (
            (*DEFAULT, pin("torchvision", "0.24.1+cu130", index="x")),
            "12.8",
            ["torchvision 0.24.1+cu130 is for CUDA 13"],
        ),
        ((*DEFAULT, pin("nvidia-cuda-nvrtc", "13.0.88")), "12.8", ["nvidia-cuda-nvrtc 13.0.88 is for CUDA 13"]),
        ((pin("nvidia-cublas-cu11", "11.11.3.6"),), "12.8", ["nvidia-cublas-cu11 11.11.3.6 is for CUDA 11"]),
    ],
)
def test_wrong(pins: tuple[Pin, ...], cuda: str, problems: list[str]) -> None:
    assert wrong(pins, cuda) == problems


def test_names_that_only_look_like_cuda_are_left_alone() -> None:
    names = ("curl-cu", "cuda-python", "nvidia-ml-py", "accumulate", "mycu12", "cu12")
    assert wrong([pin(name, "1.0") for name in names], "13.0") == []


def test_torch_cuda_of_a_build_for_something_else() -> None:
    assert torch_cuda(pin("torch", "2.9.1+rocm6.4"), ()) is None
    assert torch_cuda(pin("torch", "2.9.1+xpu"), ()) is None
    assert torch_cuda(pin("torch", "2.0.1+cu117.with.pypi.cudnn"), ()) == "11.7"
