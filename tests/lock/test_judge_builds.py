"""The judge of what sources are built with: of the target's torch, CUDA and NumPy, none but its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from envspec.lock.model import Artifact, BuildPin, GitSource, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.rules.builds import bounds_of, wrong_build_environments
from envspec.lock.rules.case import LockedCase

SOURCE = Artifact("ext-1.0.tar.gz", "0" * 64)


def file_of(name: str, version: str) -> str:
    return f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def pin(name: str, version: str, index: str = "pypi", *, kind: str = "pip") -> Pin:
    return Pin(kind, name, version, index, Artifact(file_of(name, version), "a" * 64))


def built(name: str, version: str, sha256: str = "a" * 64) -> BuildPin:
    return BuildPin(name, version, file_of(name, version), sha256)


TORCH = pin("torch", "2.12.1+cu126", "pytorch/cu126")
CUBLAS = pin("nvidia-cublas-cu12", "12.6.4.1")


def test_a_build_is_bound_to_the_targets_torch_cuda_and_own_packages() -> None:
    """Those that an index has: a URL, a commit and conda's bind nothing, and NumPy has bounds of its own."""
    ours, numpy = pin("ours", "2.0", "internal"), pin("numpy", "2.3.1")
    by_url = replace(pin("theirs", "1.0", ""), url="https://host/theirs-1.0-py3-none-any.whl")
    by_git = replace(pin("git", "1.0", ""), git=GitSource("https://host/git", "0" * 40))
    conda = pin("cuda-nvcc", "12.6", "conda-forge/linux-64", kind="conda")
    plain = pin("idna", "3.1")
    found = bounds_of([TORCH, CUBLAS, ours, numpy, by_url, by_git, conda, plain])
    assert found == ("torch==2.12.1+cu126", "nvidia-cublas-cu12==12.6.4.1", "ours==2.0")


def told(pins: tuple[Pin, ...], *wheels: BuildPin, cuda: str | None = "12.6") -> list[str]:
    source = Pin("pip", "ext", "1.0", "pypi", SOURCE, built_with=wheels)
    target = LockedTarget("t", TargetInputs("linux-64", "3.12", "2.28", cuda), (source, *pins))
    flaws = tuple(wrong_build_environments(LockedCase(target, SpecInputs())))
    assert {flaw.code for flaw in flaws} <= {"wrong-build-environment"}
    return [flaw.message for flaw in flaws]


@pytest.mark.parametrize(
    "one",
    [
        built("torch", "2.12.1+cu126"),
        built("nvidia-cublas-cu12", "12.6.4.1"),
        built("setuptools", "84.0"),
        built("nvidia-cuda-nvcc-cu12", "12.9.86"),
    ],
)
def test_the_target_s_own_and_what_shapes_no_build(one: BuildPin) -> None:
    assert told((TORCH, CUBLAS), one) == []


@pytest.mark.parametrize(
    ("pins", "one", "why"),
    [
        ((TORCH,), built("torch", "2.14.1"), "the target has 2.12.1+cu126 from pytorch/cu126"),
        ((TORCH,), built("torch", "2.12.1+cu126", "b" * 64), "the target has 2.12.1+cu126 from pytorch/cu126"),
        ((), built("torch", "2.14.1"), "the target has none of pip"),
        ((TORCH,), built("triton", "3.7.0"), "the target has none of pip"),
        (
            (pin("torch", "2.12.1", "conda-forge/linux-64", kind="conda"),),
            built("torch", "2.12.1"),
            "the target has that of conda-forge/linux-64",
        ),
        ((TORCH, CUBLAS), built("nvidia-cublas-cu12", "12.9.1.4"), "the target has 12.6.4.1"),
        ((TORCH,), built("nvidia-cudnn-cu13", "9.20"), "the target is for CUDA 12.6"),
        ((TORCH,), built("nvidia-cuda-runtime", "13.0.96"), "the target is for CUDA 12.6"),
        ((pin("acme-core", "1.0", "internal"),), built("acme-core", "1.1"), "the target has 1.0 from internal"),
    ],
)
def test_what_makes_a_build_another_than_the_target_s(pins: tuple[Pin, ...], one: BuildPin, why: str) -> None:
    assert told(pins, one) == [f"ext is built with {one.name} {one.version}, but {why}"]


@pytest.mark.parametrize(
    ("has", "builds", "right"),
    [
        # NumPy's numpyconfig.h, NPY_FEATURE_VERSION: 2.0 builds for 1.19, 2.1 for 1.21, 2.3 for 1.23
        ("1.26.4", "1.26.4", True),
        ("1.26.4", "1.23.5", True),
        ("1.26.4", "2.0.2", True),
        ("1.18.5", "2.0.2", False),
        ("1.22.4", "2.4.6", False),
        ("1.23.5", "1.24.4", False),
        ("2.2.6", "2.0.2", True),
        ("2.2.6", "2.4.6", False),
        ("2.2.6", "1.26.4", False),
    ],
)
def test_numpy(has: str, builds: str, right: bool) -> None:
    found = told((pin("numpy", has),), built("numpy", builds))
    said = f"ext is built with numpy {builds}, but what that builds doesn't run with the target's {has}"
    assert found == ([] if right else [said])


def test_a_target_without_numpy_has_no_say() -> None:
    assert told((), built("numpy", "2.4.6"), cuda=None) == []


def test_a_build_s_wheels_are_of_the_target_s_indexes() -> None:
    wheels = (built("torch", "2.12.1+cu126"), built("setuptools", "84.0"))
    source = Pin("pip", "ext", "1.0", "pypi", SOURCE, built_with=wheels)
    target = LockedTarget("t", TargetInputs("linux-64", "3.12", "2.28", "12.6"), (source, TORCH))
    assert [(one.name, one.index) for one in target.build_wheels(source)] == [
        ("torch", "pytorch/cu126"),
        ("setuptools", "pypi"),
    ]
    assert [one.name for one in target.fetched] == ["ext", "torch", "setuptools"], "each file once"
