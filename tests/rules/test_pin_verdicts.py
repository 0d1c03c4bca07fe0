"""Judging exact pins, and what makes the rules keep silent."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from envspec.base.errors import Place
from envspec.base.finding import Finding, errors
from envspec.facts import conda_builds, gpus, torch_builds
from envspec.facts.compute_capability import is_integrated
from envspec.packages.requirement import parse_requirement
from envspec.rules.judge import judge
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

HERE = Place("specs/s.toml", 1, 1)


def spec_of(
    cuda: str | None,
    gpus: tuple[str, ...] = (),
    *,
    pip: tuple[str, ...] = ("torch",),
    conda: tuple[str, ...] = (),
    python: str = "3.12",
    platform: str = "linux-64",
    glibc: str = "2.28",
    sources: Mapping[str, str] | None = None,
    channels: tuple[str, ...] = ("conda-forge",),
    driver: str | None = None,
) -> tuple[Spec, Target]:
    target = Target("t", platform, cuda, gpus, driver, glibc=glibc, place=HERE)
    table = PipTable(tuple(Located(text, HERE) for text in pip), sources=sources or {})
    matches = CondaTable(channels, tuple(Located(text, HERE) for text in conda))
    return Spec("specs/s.toml", "s", python, (target,), pip=table, conda=matches), target


def codes(findings: tuple[Finding, ...]) -> list[str]:
    marks = {"error": "", "warning": "-", "info": "~"}
    return [marks[finding.severity] + finding.code for finding in findings]


@pytest.mark.parametrize(
    ("cuda", "gpu", "pins", "expected"),
    [
        # PyPI's own wheel of 2.9.1 on linux-64 is cu128 (torch/version.py of the wheel).
        ("12.8", "V100", {"torch": "2.9.1", "torchvision": "0.24.1", "nvidia-cudnn-cu12": "9.10.2.21"}, []),
        ("12.6", "V100", {"torch": "2.9.1"}, ["cuda-mismatch"]),
        ("12.6", "V100", {"torch": "2.9.1+cu126"}, []),
        ("12.6", "H100", {"torch": "2.9.1+cpu"}, ["cpu-build"]),
        (None, "", {"torch": "2.9.1"}, ["cuda-mismatch"]),
        (None, "", {"torch": "2.9.1+cpu"}, []),
        # 2.11.0 dropped sm_70 from cu128 and pins a cuDNN without it (fat binary scan).
        ("12.8", "V100", {"torch": "2.11.0+cu128"}, ["architecture-missing"]),
        ("12.8", "V100", {"nvidia-cudnn-cu12": "9.19.0.56"}, ["library-architecture"]),
        ("12.8", "H100", {"torch": "2.11.0+cu128", "nvidia-cudnn-cu12": "9.19.0.56"}, []),
        (
            "12.6",
            "GTX 980 Ti",
            {"torch": "2.14.1+cu126", "nvidia-nccl-cu12": "2.29.3"},
            ["~triton-architecture", "-library-architecture"],
        ),
        # Companions: Requires-Dist of torchvision on PyPI.
        ("12.8", "H100", {"torch": "2.9.1", "torchvision": "0.20.1"}, ["companion-mismatch"]),
        ("12.6", "H100", {"torch": "2.9.1+cu126", "torchvision": "0.24.1+cu128"}, ["cuda-mismatch"]),
        ("12.6", "H100", {"torch": "2.9.1+cu126", "torchvision": "0.24.1+cu126"}, []),
        ("12.6", "H100", {"torch": "2.9.1+cu126", "torchvision": "0.24.1+ours"}, []),
        # a local part is read as any build's, also where it is no variant of PyTorch's indexes
        ("13.0", "RTX 5090", {"torch": "2.9.1+cu130.sm120"}, ["~torch-local-build"]),
        ("12.8", "RTX 5090", {"torch": "2.9.1+cu130.sm120"}, ["cuda-mismatch"]),
        ("12.6", "H100", {"torch": "2.9.1+cu126", "torchvision": "0.24.1+cu126.sm90"}, []),
        ("12.6", "H100", {"torch": "2.9.1+cu126", "torchvision": "0.24.1+cu128.sm90"}, ["cuda-mismatch"]),
        (None, "", {"torch": "2.6.0+cpu.cxx11.abi"}, []),
        # torchaudio 2.11.0 goes with every later torch, but of its own CUDA: PyPI's is for 13.0 (_check_cuda_version).
        ("13.0", "H100", {"torch": "2.13.0", "torchaudio": "2.11.0"}, []),
        ("13.0", "H100", {"torch": "2.10.0+cu130", "torchaudio": "2.11.0+cu130"}, ["companion-mismatch"]),
        ("13.2", "H100", {"torch": "2.15.0", "torchaudio": "2.11.0"}, ["cuda-mismatch"]),
        (None, "", {"torch": "2.13.0+cpu", "torchaudio": "2.11.0+cpu"}, []),
        # Another CUDA major.
        ("13.0", "H100", {"torch": "2.9.1+cu130", "nvidia-cublas-cu12": "12.8.4.1"}, ["cuda-major-mixed"]),
        ("13.0", "H100", {"cuda-toolkit": "12.9.1", "cupy-cuda12x": "13.6.0"}, ["cuda-major-mixed"] * 2),
        ("13.0", "H100", {"jax-cuda12-plugin": "0.7.2", "nvidia-dali-cuda120": "1.50.0"}, ["cuda-major-mixed"] * 2),
        ("13.0", "H100", {"cuda-toolkit": "13.0.2", "nvidia-nccl-cu13": "2.28.9", "nvidia-ml-py": "12.575.51"}, []),
        ("12.8", "A100", {"cuda-python": "13.4.4", "cuda-bindings": "13.4.4"}, ["cuda-major-mixed"] * 2),
        ("13.0", "A100", {"cuda-python": "12.6.2.post1", "cuda-bindings": "13.5.0"}, ["cuda-major-mixed"]),
        ("12.4", "A100", {"cuda-python": "12.9.10", "cuda-bindings": "12.9.10", "cuda-core": "1.2.2"}, []),
        (None, "", {"nvidia-nccl-cu12": "2.28.9"}, ["-cuda-major-mixed"]),
        (None, "", {"cuda-python": "13.4.4"}, ["-cuda-major-mixed"]),
        (None, "", {"cuda-toolkit": "13.0.2"}, ["-cuda-major-mixed"]),
        # A triton alone: what its own compiler knows (data/triton.toml).
        ("12.8", "B200", {"triton": "3.2.0"}, ["-triton-architecture"]),
        ("12.8", "B200", {"triton": "3.3.0"}, []),
        ("12.6", "P100", {"triton": "3.9.0"}, ["-triton-architecture"]),
        ("12.6", "T4", {"triton": "3.9.0"}, []),
        ("13.0", "H100", {"triton": "4.0.0"}, ["~triton-newer-than-tables"]),
        (None, "", {"triton": "3.2.0"}, []),
        # Newer than the tables, or nobody's build.
        ("13.2", "H100", {"torch": "2.16.0"}, ["~torch-newer-than-tables"]),
        ("12.8", "H100", {"torch": "2.9.1+acme"}, ["-torch-local-build"]),
        ("12.8", "H100", {"numpy": "2.2.6"}, []),
    ],
)  # fmt: skip
def test_pins(cuda: str | None, gpu: str, pins: dict[str, str], expected: list[str]) -> None:
    spec, target = spec_of(cuda, (gpu,) if gpu else ())
    found = judge_pins(spec, target, PinnedVersions(pins))
    assert codes(found) == expected
    for one in found:
        assert one.bound is None or parse_requirement(one.bound)


def test_a_triton_alone_names_the_first_that_compiles_for_the_gpu() -> None:
    spec, target = spec_of("12.8", ("B200",), pip=("triton",))
    (found,) = judge_pins(spec, target, PinnedVersions({"triton": "3.2.0"}))
    assert "triton 3.2.0 fails on sm_100 (B200)" in found.message and "torch.compile" not in found.message
    assert [one.line for one in found.ways] == ["triton==3.3.0"]


@pytest.mark.parametrize(
    ("cuda", "version", "build", "expected"),
    [
        ("12.9", "2.9.1", "cuda129_mkl_py312_h0_1", []),
        ("12.8", "2.7.1", "cuda126_mkl_py312_h0_1", []),
        ("12.9", "2.9.1", "cpu_mkl_py312_h0_1", ["cpu-build"]),
        ("12.9", "2.11.0", "cuda130_mkl_py312_h0_1", ["cuda-mismatch"]),
        ("12.9", "2.99.0", "cuda129_mkl_py312_h0_1", ["~torch-newer-than-tables"]),
    ],
)
def test_conda_pins(cuda: str, version: str, build: str, expected: list[str]) -> None:
    """conda-forge: `__cuda` missing gives the CPU build in silence; a build runs with a higher minor of its major."""
    spec, target = spec_of(cuda, ("H100",), pip=(), conda=("pytorch",))
    assert codes(judge_pins(spec, target, PinnedVersions({"pytorch": version}, {"pytorch": build}))) == expected


def test_a_companion_from_pypi_beside_condas_torch() -> None:
    spec, target = spec_of(None, pip=("torchaudio",), conda=("pytorch",))
    pins, builds = {"pytorch": "2.10.0", "torchaudio": "2.11.0"}, {"pytorch": "cpu_generic_py312_h0_1"}
    assert codes(judge_pins(spec, target, PinnedVersions(pins, builds))) == ["companion-mismatch"]
    assert codes(judge_pins(spec, target, PinnedVersions({**pins, "torchaudio": "2.10.0"}, builds))) == []
    assert codes(judge_pins(spec, target, PinnedVersions(pins, {**builds, "torchaudio": "cpu_py312_0"}))) == []


@given(st.sampled_from(torch_builds.builds()))
def test_every_build_of_the_tables_works_on_the_gpus_it_is_compiled_for(build: torch_builds.TorchBuild) -> None:
    # but for a Kepler with cuDNN 9, which has dropped it
    names = tuple(f"sm_{sm.replace('.', '')}" for sm in build.sm if sm != "3.7" or build.cudnn != "9.1.0.70")
    spec, target = spec_of(build.cuda, names, python=build.pythons[0], platform=build.platform)
    found = judge_pins(spec, target, PinnedVersions({"torch": f"{build.version}+{build.variant}"}))
    assert not errors(found), found


@given(st.sampled_from(torch_builds.builds()), st.sampled_from(sorted(gpus.capabilities())))
def test_no_build_works_on_a_gpu_it_has_no_code_for(build: torch_builds.TorchBuild, capability: str) -> None:
    if build.cuda is None or build.runs_on(capability) or build.ptx:
        return
    spec, target = spec_of(
        build.cuda, (f"sm_{capability.replace('.', '')}",), python=build.pythons[-1], platform=build.platform
    )
    found = judge_pins(spec, target, PinnedVersions({"torch": f"{build.version}+{build.variant}"}))
    assert "architecture-missing" in codes(found)
    pinned, target = spec_of(
        build.cuda,
        (f"sm_{capability.replace('.', '')}",),
        pip=(f"torch=={build.version}",),
        python=build.pythons[-1],
        platform=build.platform,
    )
    assert judge(pinned, target).errors
    assert judge(pinned, target).feasible == ()


@given(st.sampled_from([b for b in conda_builds.builds() if b.cuda and b.arm_variant is None]))
def test_every_conda_build_works_on_the_gpus_it_is_compiled_for(build: conda_builds.CondaBuild) -> None:
    arm = build.platform == "linux-aarch64"
    names = tuple(f"sm_{sm.replace('.', '')}" for sm in build.sm if arm or not is_integrated(sm))
    spec, target = spec_of(build.cuda, names, pip=(), conda=(f"pytorch =={build.version}",), platform=build.platform)
    assert not judge(spec, target).errors
    assert judge(spec, target).feasible == (build.version,)


def test_feasible_names_what_works_newest_first() -> None:
    assert judge(*spec_of("12.8", ("V100",))).feasible == ("2.10.0", "2.9.1", "2.9.0", "2.8.0")
    assert judge(*spec_of("12.4", ("RTX 5090",))).feasible == ()
    assert judge(*spec_of("12.8", pip=("numpy",))).feasible == ()
    assert judge(*spec_of("11.8", pip=("torch>=2.6",))).feasible == ("2.7.1", "2.7.0", "2.6.0")


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"pip": ("numpy",)}, []),
        ({"pip": ("torch==2.9.1",), "sources": {"torch": "internal"}}, []),
        ({"pip": (), "conda": ("pytorch 2.9.*",), "channels": ("acme",)}, ["-torch-channel-unknown"]),
        ({"pip": ('torch==2.9.1; sys_platform == "darwin"',)}, []),
        ({"pip": ('torch==2.9.1; sys_platform == "linux" and platform_machine == "x86_64"',)}, ["no-build"]),
        ({"pip": ("torch @ git+ssh://git.example.org/torch",)}, []),
        ({"pip": ("torch==2.9.*", "torch>=2.9.1")}, ["no-build"]),
        ({"pip": ("Torch ==2.9.1",)}, ["no-build"]),
        ({"pip": (), "conda": ("pytorch=2.9",)}, ["no-build"]),
        ({"pip": (), "conda": ("conda-forge::pytorch=2.9.1=cuda129*",)}, ["no-build"]),
        ({"pip": (), "conda": ("pytorch 2.4.1|2.5.1",)}, []),
        ({"pip": (), "conda": ("pytorch",)}, []),
        ({"pip": (), "conda": ("pytorch-gpu", "pytorch=2.9")}, ["no-build"]),
    ],
)
def test_which_requirements_the_tables_speak_about(kwargs: dict[str, object], expected: list[str]) -> None:
    """CUDA 11.8 has no torch 2.9 anywhere: a silent case is one the tables don't describe."""
    assert codes(judge(*spec_of("11.8", **kwargs)).findings) == expected  # type: ignore[arg-type]


def test_errors_come_first() -> None:
    spec, target = spec_of("13.0", ("B300", "V100"), pip=("torch==2.9.1",))
    severities = [finding.severity for finding in judge(spec, target).findings]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert len(set(severities)) == 2
