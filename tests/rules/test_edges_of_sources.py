"""Facts with an edge: drivers older than a list, systems that want more than their GPU, frameworks that want more than
CUDA, machine types of clouds in place of GPUs."""

import pytest
from test_pin_verdicts import spec_of

from envspec.app.gpu_names import explain_unknown
from envspec.base.finding import Finding
from envspec.facts import gpus
from envspec.facts.tables import read
from envspec.rules.case import Case, of_target
from envspec.rules.judge import judge
from envspec.rules.machine import driver_problems
from envspec.rules.pins import PinnedVersions, judge_pins


def case(gpu: str, driver: str, cuda: str = "11.8") -> Case:
    return of_target("linux-64", "3.12", cuda, (gpu,), driver, "2.28")


def of_driver(gpu: str, driver: str, cuda: str = "11.8") -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in driver_problems(case(gpu, driver, cuda))]


@pytest.mark.parametrize("gpu", ["A800 80GB PCIe", "A800", "A100"])
def test_a_driver_older_than_the_lists_is_not_refused_by_them(gpu: str) -> None:
    assert "driver-too-old-for-gpu" not in {code for _, code in of_driver(gpu, "470.199.02")}


def test_no_product_is_refused_below_the_lists_but_by_its_capability() -> None:
    for gpu in gpus.products():
        first = gpus.capabilities()[gpu.capability].first_driver or 0
        if first <= 470 and not gpu.integrated:
            assert "driver-too-old-for-gpu" not in {code for _, code in of_driver(gpu.name, "510.108.03")}, gpu.name


@pytest.mark.parametrize(("gpu", "driver"), [("A800", "515.48.07"), ("H200", "550.54.14"), ("L4", "515.65.01")])
def test_within_the_lists_they_count(gpu: str, driver: str) -> None:
    assert ("error", "driver-too-old-for-gpu") in of_driver(gpu, driver)


@pytest.mark.parametrize(("driver", "told"), [("570.86.15", True), ("570.133.20", False), ("580.65.06", False)])
def test_a_system_that_wants_a_later_driver_is_a_note(driver: str, told: bool) -> None:
    found = of_driver("B200", driver, "12.8")
    assert (("info", "driver-too-old-for-gpu") in found) == told and "error" not in {one for one, _ in found}


def pinned(pins: dict[str, str], gpu: str, driver: str | None, cuda: str) -> list[Finding]:
    spec, target = spec_of(cuda, (gpu,), pip=tuple(pins), driver=driver)
    return list(judge_pins(spec, target, PinnedVersions(pins)))


@pytest.mark.parametrize(
    ("name", "version", "driver", "cuda", "told"),
    [
        ("librmm-cu12", "26.2.0", "525.85.12", "12.6", True),
        ("librmm", "26.2.0", "525.85.12", "12.6", True),
        ("librmm-cu12", "26.10.0", "530.30.02", "12.6", True),
        ("librmm-cu12", "26.2.0", "535.104.05", "12.6", False),
        ("librmm-cu12", "25.12.0", "525.85.12", "12.6", False),
        ("librmm-cu12", "26.2.0", None, "12.6", False),
    ],
)
def test_rapids_wants_a_newer_driver_than_cuda(
    name: str, version: str, driver: str | None, cuda: str, told: bool
) -> None:
    found = [one for one in pinned({name: version}, "A100", driver, cuda) if one.code == "driver-too-old"]
    assert [one.severity for one in found] == ["warning"] * told
    assert all("RAPIDS" in one.message and "R535" in str(one.remedy) for one in found)


@pytest.mark.parametrize(
    ("version", "gpu", "told"), [("10.6.0", "V100", True), ("10.4.0", "V100", False), ("10.6.0", "T4", False)]
)
def test_tensorrt_without_volta(version: str, gpu: str, told: bool) -> None:
    found = pinned({"tensorrt-cu12": version, "tensorrt-cu12-libs": version}, gpu, None, "12.6")
    assert [one.code for one in found if one.package and one.package.startswith("tensorrt")] == (
        ["wheel-architecture"] * 2 if told else []
    )


def test_a_jetson_before_cuda_13_is_sent_to_nvidia_s_index() -> None:
    spec, target = spec_of("12.6", ("Jetson Orin Nano",), pip=("torch==2.7.1",), platform="linux-aarch64")
    (found,) = [one for one in judge(spec, target).findings if one.severity == "error"]
    assert str(found.remedy).startswith(
        "Nearest: torch 2.9.0 with CUDA 13.0 (JetPack 7.2 or newer); or if NVIDIA's index"
    )


@pytest.mark.parametrize(
    ("name", "cloud", "gpu"),
    [
        ("p5.48xlarge", "AWS", "H100"),
        ("ml.p5en.48xlarge", "AWS", "H200"),
        ("p4de.24xlarge", "AWS", "A100"),
        ("g6e.12xlarge", "AWS", "L40S"),
        ("g5.xlarge", "AWS", "A10G"),
        ("g4dn.metal", "AWS", "T4"),
        ("p6-b200.48xlarge", "AWS", "B200"),
        ("m5.large", "AWS", None),
        ("a3-megagpu-8g", "Google Cloud", "H100"),
        ("a3-ultragpu-8g", "Google Cloud", "H200"),
        ("a2-highgpu-1g", "Google Cloud", "A100"),
        ("g2-standard-4", "Google Cloud", "L4"),
        ("n1-standard-8", "Google Cloud", None),
        ("Standard_ND96isr_H100_v5", "Azure", "H100"),
        ("Standard_NC24ads_A100_v4", "Azure", "A100"),
        ("standard_nc6s_v3", "Azure", "V100"),
        ("Standard_ND96asr_v4", "Azure", "A100"),
        ("Standard_D4s_v5", "Azure", None),
    ],
)
def test_a_machine_type_of_a_cloud_is_told_with_its_gpu(name: str, cloud: str, gpu: str | None) -> None:
    assert gpus.find(name) == ()
    message, hint = explain_unknown(name)
    assert message == f'"{name}" is a machine type of {cloud}, not a GPU'
    assert hint.startswith(f'write "{gpu}"' if gpu else "name its GPU")


def test_every_machine_has_a_gpu_of_the_tables_and_no_gpu_is_a_machine() -> None:
    assert all(gpus.find(row["gpu"]) for row in (*read("gpus")["machines"], *read("gpus")["systems"]))
    assert not [gpu.name for gpu in gpus.products() if gpus.machine(gpu.name)]
    assert gpus.machine("H1000") is None and gpus.machine("RTX PRO 6000") is None


def test_a_size_that_the_tables_lack_is_the_name_s() -> None:
    (found,) = gpus.find("NVIDIA RTX PRO 5000 72GB Blackwell")
    assert (found.name, found.capability, found.memory_gib) == ("RTX PRO 5000 Blackwell", "12.0", (72,))
    (known,) = gpus.find("NVIDIA RTX PRO 5000 Blackwell")
    assert known.memory_gib == (48,)
