"""The typed queries over the fact tables."""

import subprocess
import sys

import pytest

from envspec.facts import conda_builds, gpus, libraries, toolkits, torch_builds
from envspec.facts.compute_capability import covers
from envspec.facts.minimum import driver_floor


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H100", ["H100"]),
        ("h-100", ["H100"]),
        ("RTX 5090", ["GeForce RTX 5090"]),
        ("rtx-5090", ["GeForce RTX 5090"]),
        ("rtx5090", ["GeForce RTX 5090"]),
        ("GeForce RTX 4070 Ti SUPER", ["GeForce RTX 4070 Ti SUPER"]),
        ("A100", ["A100 40GB", "A100 80GB"]),
        ("A100 80 GB", ["A100 80GB"]),
        ("A100-SXM4-80GB", ["A100 80GB"]),
        ("NVIDIA A100-SXM4-40GB", ["A100 40GB"]),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", ["A100 80GB"]),
        ("NVIDIA H100 80GB HBM3", ["H100"]),
        ("NVIDIA H100 NVL", ["H100 NVL"]),
        ("Tesla V100-SXM2-32GB", ["V100"]),
        ("Tesla P100-PCIE-16GB", ["P100"]),
        ("NVIDIA L40S", ["L40S"]),
        ("NVIDIA RTX 6000 Ada Generation", ["RTX 6000 Ada"]),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", ["RTX PRO 6000 Blackwell"]),
        ("Quadro RTX 6000", ["Quadro RTX 6000"]),
        ("NVIDIA GH200 480GB", ["GH200"]),
        ("NVIDIA GB10", ["GB10"]),
        ("DGX Spark", ["GB10"]),
        ("Orin", ["Jetson AGX Orin"]),
        ("blackwell-ultra", ["B300", "GB300"]),
        ("volta", ["V100", "Quadro GV100", "TITAN V"]),
        ("sm_72", ["Jetson AGX Xavier", "Jetson Xavier NX"]),
        ("sm_88", ["sm_88"]),
        ("RX 7900", []),
        ("", []),
        ("NVIDIA", []),
    ],
)
def test_find(name: str, expected: list[str]) -> None:
    assert [gpu.name for gpu in gpus.find(name)] == expected


@pytest.mark.parametrize("name", ["sm_90", "9.0", "sm_90a", "compute_90", "hopper", "Hopper"])
def test_find_by_capability_and_architecture(name: str) -> None:
    found = gpus.find(name)
    assert {gpu.capability for gpu in found} == {"9.0"}
    assert {"H100", "H200", "GH200"} <= {gpu.name for gpu in found}


def test_every_product_finds_itself() -> None:
    for gpu in gpus.products():
        assert gpu in gpus.find(gpu.name), gpu.name
        assert gpu in gpus.find("NVIDIA " + gpu.name), gpu.name


def test_an_architecture_stands_for_its_cards_not_for_jetsons() -> None:
    assert {gpu.capability for gpu in gpus.find("blackwell")} == {"10.0", "10.3", "12.0", "12.1"}
    assert "8.7" not in {gpu.capability for gpu in gpus.find("ampere")}


def test_a_laptop_card_has_no_known_memory() -> None:
    (card,) = gpus.find("NVIDIA GeForce RTX 4090 Laptop GPU")
    assert (card.capability, card.memory_gib, card.bandwidth_gbs) == ("8.9", (), None)


def test_properties() -> None:
    (h100,) = gpus.find("H100")
    assert (h100.architecture, h100.sm, h100.memory_gib, h100.bandwidth_gbs) == ("Hopper", "sm_90", (80,), 3350)
    assert h100.datacentre
    assert not gpus.find("RTX 5090")[0].datacentre


def test_toolkit() -> None:
    toolkit = toolkits.toolkit("12.8.1")
    assert toolkit is not None
    assert (toolkit.version, toolkit.native_linux, toolkit.compatible_linux) == ("12.8", "570.26", "525.60.13")
    assert toolkit.first_capability == "5.0"
    assert toolkit.native("win-64") == "570.65"
    assert toolkit.reaches("12.1") and not toolkits.toolkit("13.0").reaches("7.0")  # type: ignore[union-attr]
    assert toolkit.require_cuda == "cuda>=12.8 driver>=525.60.13"
    assert toolkits.toolkit("12.7") is None


@pytest.mark.parametrize(
    ("cuda", "capabilities", "floor"),
    [
        ("12.8", ["8.0", "9.0"], "525.60.13"),
        ("12.8", ["10.0", "12.0"], "570"),
        ("12.8", ["9.0", "12.0"], "525.60.13"),
        ("12.9", ["10.3"], "575"),
        ("11.8", ["9.0"], "520"),
        ("13.0", ["10.0"], "580.65.06"),
        ("12.8", [], "525.60.13"),
        ("12.7", ["9.0"], None),
    ],
)
def test_the_lowest_driver_knows_one_of_the_gpus(cuda: str, capabilities: list[str], floor: str | None) -> None:
    gpus = [f"sm_{capability.replace('.', '')}" for capability in capabilities]
    assert driver_floor(cuda, "linux-64", gpus) == floor


def test_builds() -> None:
    (build,) = torch_builds.builds("2.9.1+cu128", cuda="12.8", platform="linux-64")
    assert build.sm == ("7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0")
    assert (build.ptx, build.cudnn, build.nccl, build.triton) == ((), "9.10.2.21", "2.27.5", "3.5.1")
    assert (build.glibc, build.trust, build.pythons) == ("2.28", "binary", ("3.10", "3.11", "3.12", "3.13", "3.14"))
    assert covers(build.sm, "12.1", build.cuda) and not covers(build.sm, "6.1", build.cuda)
    assert torch_builds.builds("2.9.1", cuda="11.8") == ()
    assert {b.version for b in torch_builds.builds(cuda="11.8")} == {
        r.version for r in torch_builds.releases() if torch_builds.order(r.version) <= (2, 7, 1)
    }
    assert {b.variant for b in torch_builds.builds("2.9.1", platform="osx-arm64")} == {"cpu"}


def test_companions_and_their_inverse() -> None:
    assert torch_builds.companions("2.9.1") == {"torchvision": ("0.24.1",), "torchaudio": ("2.9.1",)}
    assert torch_builds.companions("2.9.1+cu126") == torch_builds.companions("2.9.1")
    assert torch_builds.companions("9.9") == {}
    assert torch_builds.torch_for("torchvision", "0.24.1+cu126") == ("2.9.1",)
    assert torch_builds.torch_for("torchvision", "0.29.2") == ("2.14.0", "2.14.1", "2.15.0")
    assert torch_builds.torch_for("torchvision", "9.9") == ()
    for release in torch_builds.releases():
        for name, versions in torch_builds.companions(release.version).items():
            assert all(release.version in torch_builds.torch_for(name, v) for v in versions)


def test_conda_builds_run_with_a_higher_minor_of_cuda_version() -> None:
    """conda-forge's run dependency is `cuda-version >=12.6,<13` for a cuda126 build."""
    assert {b.variant for b in conda_builds.builds("2.7.1", "12.8", "linux-64")} == {"cuda126"}
    assert {b.variant for b in conda_builds.builds("2.7.1", "12.9", "linux-64")} == {"cuda126", "cuda129"}
    assert conda_builds.builds("2.8.0", "12.8", "linux-64") == ()
    (build,) = conda_builds.builds("2.13.0", "12.9", "linux-64")
    assert covers(build.sm, "7.0", build.cuda) and build.ptx == ("12.0",)
    assert {b.arm_variant for b in conda_builds.builds("2.13.0", "12.9", "linux-aarch64")} == {None, "tegra"}
    assert conda_builds.versions()[-1] == "2.13.0"


def test_library_architectures() -> None:
    """cuDNN dropped everything below 7.5 in 9.11."""
    old, new = (libraries.library("nvidia-cudnn-cu12", one, "linux-64") for one in ("9.10.2.21", "9.12.0.46"))
    assert old is not None and new is not None
    assert covers(old.sm, "7.0", "12.8") and not covers(new.sm, "7.0", "12.8")
    assert new.version == "9.11.0.98"
    assert libraries.library("nvidia-cudnn-cu12", "8.0.0.1", "linux-64") is None
    assert libraries.library("nvidia-cudnn-cu12", "latest", "linux-64") is None
    assert libraries.library("nvidia-cudnn-cu12", "9.10.2.21", "win-64") is None


def test_a_library_is_that_of_the_platform() -> None:
    """aarch64's cuDNN 9.13 for CUDA 13 has code for Thor, and x86_64's hasn't."""
    x86, arm = (libraries.library("nvidia-cudnn-cu13", "9.13.0.50", f"linux-{one}") for one in ("64", "aarch64"))
    assert x86 is not None and arm is not None
    assert (x86.platform, arm.platform) == ("linux-64", "linux-aarch64")
    assert covers(arm.sm, "11.0", "13.0") and not covers(x86.sm, "11.0", "13.0")


def test_importing_the_queries_reads_no_table() -> None:
    """`doctor` and `builds` start fast: tables are read when a query needs them."""
    code = (
        "import sys; from envspec.facts import conda_builds, corrections, gpus, libraries, toolkits, torch_builds\n"
        "from envspec.facts import wheels\n"
        "print(sorted(m for m in ('tomli', 'difflib') if m in sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
