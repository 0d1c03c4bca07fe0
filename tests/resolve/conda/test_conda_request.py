"""What a conda request asks, and the virtual packages of its target."""

import pytest
from msgspec.structs import replace

from envspec.lock.model import SpecInputs, TargetInputs
from envspec.resolve.conda.request import CondaRequest, conda_request_for, virtual_packages
from envspec.resolve.pip.request import group

REQUEST = CondaRequest("linux-64", "3.12", ("ffmpeg",), ("conda-forge",), glibc="2.28")


def versions(request: CondaRequest) -> dict[str, str]:
    return {name: version for name, version, _ in virtual_packages(request)}


def test_a_cpu_target_has_no_cuda() -> None:
    assert versions(REQUEST) == {"__archspec": "1", "__unix": "0", "__linux": "4.18", "__glibc": "2.28"}


def test_an_old_glibc_comes_with_an_old_kernel() -> None:
    found = versions(replace(REQUEST, glibc="2.17"))
    assert (found["__glibc"], found["__linux"]) == ("2.17", "3.10")


@pytest.mark.parametrize(
    ("cuda", "driver", "expected"),
    [
        ("12.6", None, "12.6"),
        ("12.8", "550.54.15", "12.4"),  # runs 12.8 by minor-version compatibility, but is CUDA 12.4's own driver
        ("12.6", "580.65.06", "12.6"),  # newer than what is asked
        ("12.4", "550.54.15", "12.4"),
    ],
)
def test_cuda_is_the_asked_one_and_at_most_the_drivers_own(cuda: str, driver: str | None, expected: str) -> None:
    assert versions(replace(REQUEST, cuda=cuda, driver=driver))["__cuda"] == expected


@pytest.mark.parametrize(
    ("architectures", "expected"), [(("sm_80", "sm_90"), "8.0"), (("sm_120",), "12.0"), (("sm_86",), "8.6")]
)
def test_cuda_arch_is_the_lowest_capability(architectures: tuple[str, ...], expected: str) -> None:
    assert versions(replace(REQUEST, cuda="12.9", architectures=architectures))["__cuda_arch"] == expected


def test_without_gpus_there_is_no_cuda_arch() -> None:
    assert "__cuda_arch" not in versions(replace(REQUEST, cuda="12.9"))


@pytest.mark.parametrize(
    ("platform", "name", "archspec"),
    [("osx-arm64", "__osx", "m1"), ("win-64", "__win", "x86_64"), ("linux-aarch64", "__linux", "aarch64")],
)
def test_every_platform_has_its_own(platform: str, name: str, archspec: str) -> None:
    found = virtual_packages(replace(REQUEST, platform=platform))
    assert name in {n for n, _, _ in found}
    assert ("__archspec", "1", archspec) in found


def test_a_target_with_a_pip_half_gets_pip() -> None:
    shared = SpecInputs(channels=("conda-forge",), exclude_newer="2026-01-01T00:00:00Z")
    alone = TargetInputs("linux-64", "3.12", "2.28", conda_requirements=("ffmpeg 7.*",))
    both = replace(alone, requirements=("einops",))
    assert conda_request_for(shared, alone, ()).solved_specs == ("ffmpeg 7.*", "python 3.12.*")
    assert conda_request_for(shared, both, ()).solved_specs == ("ffmpeg 7.*", "python 3.12.*", "pip")
    assert conda_request_for(shared, both, ()).names == ("ffmpeg",)
    assert conda_request_for(shared, both, ("sm_90",), ("pytorch <3",)).constraints == ("pytorch <3",)


def test_equal_requests_are_solved_once() -> None:
    other = replace(REQUEST, cuda="12.6")
    assert group({"b": REQUEST, "c": other, "a": REQUEST}) == {REQUEST: ("a", "b"), other: ("c",)}


@pytest.mark.parametrize(
    ("platform", "cpu", "build"),
    [
        ("linux-64", None, "x86_64"),
        ("linux-64", "x86-64-v3", "x86_64_v3"),
        ("linux-aarch64", "armv8.2-a", "armv8.2a"),
        ("osx-arm64", None, "m1"),
    ],
)
def test_the_oldest_processor_is_conda_s_archspec(platform: str, cpu: str | None, build: str) -> None:
    inputs = TargetInputs(platform, "3.12", "2.28", cpu=cpu, conda_requirements=("a",))
    found = virtual_packages(conda_request_for(SpecInputs(channels=("conda-forge",)), inputs, ()))
    assert ("__archspec", "1", build) in found
