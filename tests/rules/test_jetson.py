"""A Jetson and the wheels that are made for Arm servers."""

import pytest
from msgspec.structs import replace
from test_pin_verdicts import spec_of

from envspec.base.finding import Finding
from envspec.binaries.device_code import CompiledLibrary, DeviceCode
from envspec.facts import gpus
from envspec.rules.judge import judge
from envspec.rules.neighbours import Origin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild

PLATFORM = "linux-aarch64"


def code(sm: str) -> WheelBuild:
    return WheelBuild(code=DeviceCode((CompiledLibrary("acme/_C.so", (sm,), loads=("cudart.12",)),)))


def judged(
    pins: dict[str, str],
    cuda: str = "12.6",
    gpus: tuple[str, ...] = ("Orin",),
    *,
    builds: dict[str, str] | None = None,
    index: str = "pypi",
    read: dict[str, WheelBuild] | None = None,
) -> list[Finding]:
    spec, target = spec_of(cuda, gpus, pip=tuple(pins), platform=PLATFORM)
    origins = {name: Origin(index, "") for name in pins}
    found = judge_pins(spec, target, PinnedVersions(pins, builds or {}, origins=origins, read=read or {}))
    return [one for one in found if one.code == "jetson"]


@pytest.mark.parametrize(
    "pins",
    [
        {"numpy": "2.2.6", "nvidia-cublas-cu12": "12.6.4.1"},
        {"nvidia-cuda-runtime": "12.6.77"},
        {"cupy-cuda12x": "13.6.0"},
        {"jax-cuda12-plugin": "0.7.2"},
    ],
)
def test_wheels_of_cuda_12_dont_run_on_a_jetson(pins: dict[str, str]) -> None:
    (found,) = judged(pins)
    *_, (name, version) = pins.items()
    assert found.severity == "error"
    assert f"{name} {version}" in found.message and "Jetson AGX Orin" in found.message and "numpy" not in found.message
    assert [one.text for one in found.ways] == ['cuda = "13.0" in the target: if the machines have JetPack 7.2']


def test_one_error_names_some_of_many() -> None:
    (found,) = judged({f"nvidia-{name}-cu12": "12.6" for name in ("cublas", "cufft", "curand", "cusolver")}, "12.6")
    assert "nvidia-cublas-cu12 12.6, nvidia-cufft-cu12 12.6 and 2 more" in found.message


def test_a_wheel_is_believed_what_its_code_says() -> None:
    pins = {"acme": "1.0"}
    assert judged(pins, read={"acme": code("8.0")})
    assert judged(pins, read={"acme": code("8.7")}) == []
    assert judged({"cupy-cuda12x": "13.6.0"}, read={"cupy-cuda12x": code("8.7")}) == []


@pytest.mark.parametrize("gpu", ["Orin", "Xavier", "Nano", "Thor"])
def test_every_jetson_is_told(gpu: str) -> None:
    assert judged({"nvidia-nccl-cu12": "2.28.9"}, gpus=(gpu, "GH200"))


def test_what_is_made_for_it_or_judged_elsewhere_passes() -> None:
    pins = {"nvidia-cublas-cu12": "12.6.4.1"}
    assert judged(pins, gpus=("GH200",)) == []
    assert judged({"nvidia-cublas-cu13": "13.0"}, "13.0") == []
    assert judged({"numpy": "2.2.6", "nvidia-ml-py": "12.575.51"}) == []
    assert judged(pins, index="jetson") == []
    assert judged({"cuda-nvrtc": "12.6.85"}, builds={"cuda-nvrtc": "h1_0"}) == []
    assert judged({"torch": "2.9.1+cu126", **pins}) == []


@pytest.mark.parametrize(
    ("gpu", "cuda", "codes"),
    [("Orin", "11.4", []), ("Orin", "11.3", ["cuda-too-old-for-gpu"]), ("Xavier NX", "11.4", [])],
)
def test_tegras_toolkits_are_jetpacks(gpu: str, cuda: str, codes: list[str]) -> None:
    """JetPack 5 brings CUDA 11.4 to Orin; the desktop's toolkit knows sm_87 from 11.5 on."""
    spec, target = spec_of(cuda, (gpu,), pip=("numpy",), platform=PLATFORM)
    assert [one.code for one in judge(spec, target).findings] == codes


@pytest.mark.parametrize(
    ("gpu", "cuda", "said"),
    [
        ("Xavier NX", "12.6", "no JetPack for Jetson Xavier NX comes with a CUDA newer than 11.4"),
        ("Xavier NX", "11.4", None),
    ],
)
def test_no_jetpack_is_proposed_that_a_jetson_hasnt(gpu: str, cuda: str, said: str | None) -> None:
    spec, target = spec_of(cuda, (gpu,), platform=PLATFORM)
    remedies = [str(one.remedy) for one in judge(spec, target).findings if one.severity == "error"]
    assert remedies and (said is None or any(said in one for one in remedies)), remedies
    assert said or not any("comes with" in one for one in remedies)


@pytest.mark.parametrize("cuda", ["10.2", "11.8", "12.6"])
@pytest.mark.parametrize("pip", [("numpy",), ("torch",)])
@pytest.mark.parametrize("gpu", ["Nano", "TX2"])
def test_no_cuda_is_proposed_to_a_jetson_of_before_the_tables(gpu: str, pip: tuple[str, ...], cuda: str) -> None:
    """JetPack 4.6, with CUDA 10.2, is the last for it: "Nearest: CUDA 11.2" could never run."""
    spec, target = spec_of(cuda, (gpu,), pip=pip, platform=PLATFORM)
    (found,) = (one for one in judge(spec, target).findings if one.severity == "error")
    assert "comes with CUDA 10.2" in found.message
    assert found.remedy and "leave `cuda` and `gpus` out" in found.remedy


def test_a_newer_jetson_isnt_one_of_those() -> None:
    spec, target = spec_of("11.8", ("Nano", "Orin"), pip=("numpy",), platform=PLATFORM)
    (found,) = (one for one in judge(spec, target).findings if one.severity == "error")
    assert "Jetson Nano" in found.message and "Orin" not in found.message


ARM = (
    "GH200",
    "NVIDIA GH200 480GB",
    "GH200 MIG 1g.12gb",
    "GB200",
    "GB200 NVL72",
    "GB300",
    "GB10",
    "DGX Spark",
    "sm_121",
)


@pytest.mark.parametrize("platform", ["linux-64", "win-64"])
@pytest.mark.parametrize("gpu", ARM)
def test_a_gpu_beside_an_arm_cpu_is_refused_on_other_platforms(gpu: str, platform: str) -> None:
    spec, target = spec_of("13.0", (gpu,), pip=("numpy",), platform=platform)
    (found,) = judge(spec, target).errors
    assert found.code == "gpu-platform" and found.remedy == 'platform = "linux-aarch64" in the target'
    assert "an Arm CPU" in found.message and platform in found.message
    beside = replace(target, gpus=("H100", gpu, "GB10"))
    (found,) = judge(spec, beside).errors
    assert "H100" not in found.message and "GB10" in found.message
    assert not judge(spec, replace(target, platform=PLATFORM)).errors


@pytest.mark.parametrize(
    "name", ["hopper", "blackwell", "blackwell ultra", "sm_90", "sm_100", "sm_103", "H100", "B300"]
)
def test_a_name_of_cards_too_means_those_of_the_platform(name: str) -> None:
    for platform in ("linux-64", PLATFORM):
        spec, target = spec_of("13.0", (name,), pip=("numpy",), platform=platform)
        assert not judge(spec, target).errors
    assert {"GH200", "H100"} <= {one.name for one in gpus.find("hopper")}
    assert "GH200" not in {one.name for one in gpus.on_platform("hopper", "linux-64")}


def test_what_exists_beside_an_arm_cpu_alone_is_a_fact_of_each_product() -> None:
    alone = {one.name for one in gpus.products() if one.platform}
    assert alone - {one.name for one in gpus.products() if one.integrated} == {"GH200", "GB200", "GB300", "GB10"}
    assert {one.name for one in gpus.products() if one.integrated} <= alone
