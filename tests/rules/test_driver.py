"""Drivers below a CUDA's floor: what the tables know of forward compatibility, and where they end."""

import pytest

from envspec.base.finding import Finding
from envspec.facts import toolkits
from envspec.rules import machine, nearest
from envspec.rules.case import Case, of_target


def problems(cuda: str, own: str, *gpus: str, compat: bool = False, platform: str = "linux-64") -> list[Finding]:
    return list(machine.driver_problems(of_target(platform, "3.12", cuda, gpus, own, "2.28", cuda_compat=compat)))


@pytest.mark.parametrize("cuda", ["13.4", "13.5"])
def test_past_the_table_of_forward_compatibility_it_is_told(cuda: str) -> None:
    """No image of 13.4 or 13.5 was read: that says nothing of what they admit."""
    assert not next(one for one in toolkits.cuda_releases() if one.version == cuda).forward_branches
    (error,) = problems(cuda, "570.124.06", "H100")
    assert (error.severity, error.code) == ("error", "driver-too-old")
    assert "envspec doesn't know which older drivers run that by forward compatibility" in error.message
    assert "its table has CUDA 11.8 to 13.3" in error.message and [one.cuda_compat for one in error.ways] == [True]
    (doubt,) = problems(cuda, "570.124.06", "H100", compat=True)
    assert (doubt.severity, doubt.code) == ("warning", "driver-forward-compatibility")


def test_within_the_table_a_branch_that_it_lacks_is_too_old() -> None:
    """nvidia/cuda 13.2.0 has 535 570 580 590."""
    (error,) = problems("13.2", "550.54.15", "H100", compat=True)
    assert error.code == "driver-too-old" and "forward compatibility doesn't reach it either" in error.message
    for gpu in ("H100", "RTX 6000 Ada"):
        assert [one.severity for one in problems("13.2", "570.124.06", gpu, compat=True)] == ["info"]


@pytest.mark.parametrize(
    ("own", "gpu", "platform"),
    [("570.65", "H100", "win-64"), ("572.16", "H100", "linux-64"), ("570.124.06", "RTX 4090", "linux-64")],
)
def test_windows_wsl_and_consumer_cards_have_no_forward_compatibility(own: str, gpu: str, platform: str) -> None:
    (error,) = problems("13.4", own, gpu, platform=platform)
    assert error.code == "driver-too-old" and "forward" not in error.message + (error.remedy or "")


def test_a_cuda_without_a_driver_of_its_own_has_the_one_before_as_the_least() -> None:
    (told,) = problems("13.4", "595.45.04", "H100")
    assert told.code == "driver-minor-version-compatibility" and "(610.43.02 or newer)" in told.message
    assert problems("13.4", "615.71.09", "H100") == []


@pytest.mark.parametrize(("gpu", "own", "jetpack"), [("Thor", "570.00", "7.0"), ("Orin", "540.3.0", "7.2")])
def test_a_jetson_is_told_its_jetpack_and_no_number_of_a_server(gpu: str, own: str, jetpack: str) -> None:
    found = problems("13.0", own, gpu, platform="linux-aarch64")
    assert found and {one.remedy for one in found} == {f"update it to JetPack {jetpack} or newer"}


def test_the_nearest_cuda_of_a_jetson_comes_with_its_jetpack() -> None:
    case: Case = of_target("linux-aarch64", "3.12", "12.6", ["Orin"], None, "2.28")
    assert nearest._driver_note(case, "13.0") == "(JetPack 7.2 or newer)"
    assert nearest._driver_note(of_target("linux-64", "3.12", "12.6", ["H100"], None, "2.28"), "13.0") == (
        "(driver >= 580.65.06)"
    )


@pytest.mark.parametrize(
    ("gpu", "own", "first"),
    [
        ("L40S", "525.147.05", "535.104.05"),
        ("RTX 4070 SUPER", "535.183.01", "550.40.07"),
        ("RTX 5050", "570.133.20", "570.172.08"),
        ("RTX 5050", "575.51.02", "575.64.03"),
        ("H20-3e", "560.35.03", "565.77"),
        ("GH200", "545.23.06", "545.29.02"),
    ],
)
def test_a_product_has_a_first_driver_of_its_own_in_each_branch(gpu: str, own: str, first: str) -> None:
    (found,) = (one for one in problems("12.8", own, gpu) if one.code == "driver-too-old-for-gpu")
    assert first in found.message and first in str(found.remedy)
    assert (found.severity == "error") is (gpu in ("L40S", "H20-3e", "GH200"))


@pytest.mark.parametrize(
    ("gpu", "own"),
    [
        *(("L40S", "535.104.05"), ("L40S", "545.23.06"), ("RTX 5050", "580.65.06"), ("GB10", "580.95.05")),
        # Windows' numbers are others within a branch
        *(("RTX 5050", "576.02"), ("T4", "535.54.03")),
    ],
)
def test_a_driver_that_lists_the_product_is_taken(gpu: str, own: str) -> None:
    assert "driver-too-old-for-gpu" not in [one.code for one in problems("12.4", own, gpu)]
