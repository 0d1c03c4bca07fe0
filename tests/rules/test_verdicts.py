"""(torch, CUDA, GPUs, driver, Python, glibc) -> verdict, each case with the source it rests on.

A verdict is the complete set of findings, by code; `-` marks a warning and `~` an info. `ok` has no finding.
"""

# ruff: noqa: E501  (one case a line)

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import tomli

from envspec.base.errors import Place
from envspec.base.finding import Finding
from envspec.facts import torch_builds
from envspec.facts.gpus import find
from envspec.packages.version_numbers import numbers
from envspec.rules.judge import Verdict, admits_newer, judge
from envspec.rules.wanted import FamilyRequirement, parse
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

pytestmark = pytest.mark.xdist_group("verdicts")  # one worker judges the cases, and once
KEYS = ("platform", "cuda", "gpus", "driver", "glibc")


@dataclass(frozen=True)
class Case:
    torch: str
    cuda: str | None
    verdict: str
    source: str
    gpus: str = ""
    driver: str | None = None
    python: str = "3.12"
    glibc: str = "2.28"
    platform: str = "linux-64"
    conda: str = ""
    nearest: str = ""
    """Words of the first error's remedy."""

    @property
    def id(self) -> str:
        parts = (self.torch or self.conda, self.cuda or "cpu", self.gpus, self.driver, self.python, self.platform)
        return " ".join(part for part in parts if part)


CLAIMS = "recorded claims of blog posts, judged with evidence"
WHEELS = "the PyTorch index, every wheel up to 2.13.0 (whl-index)"
BINARY = "architecture flags read from the PyPI wheel (pypi-wheel)"
PTXAS = "ptxas --help of the nvidia-cuda-nvcc wheels"
DRIVERS = "CUDA Toolkit release notes, table of toolkit drivers"
MINOR = "NVIDIA CUDA Compatibility, minor version compatibility"
FORWARD = "NVIDIA_REQUIRE_CUDA of NVIDIA's images: accepted data-centre branches"
UNIX = "NVIDIA Unix driver support timeframes: R580 is the last for Maxwell, Pascal, Volta"
GLIBC = "GLIBC symbols of the wheels: 2.28 from 2.7.0 on x86_64, from 2.6.0 on aarch64"
REQUIRES = "Requires-Dist of torchvision and torchaudio on PyPI"
FEEDSTOCK = "conda-forge/pytorch-cpu-feedstock .ci_support and build.sh"
CUDNN = "fat binary scan: cuDNN has nothing below sm_75 from 9.11 on"
DEFAULTS = "torch/version.py of the PyPI wheels: aarch64 CPU-only up to 2.10, Windows and macOS always"

CASES = [
    # What old blog posts promise.
    Case("torch==2.9.*", "11.8", "no-build", f"{CLAIMS}: a", nearest="torch 2.7.1 with CUDA 11.8, or CUDA 12.6 with torch 2.9 (driver >= 525.60.13)"),
    Case("torch==2.9.*", "12.1", "no-build", f"{CLAIMS}: a", nearest="torch 2.5.1 with CUDA 12.1, or CUDA 12.6 with torch 2.9"),
    Case("torch==2.6.0", "12.1", "no-build", f"{CLAIMS}: l", nearest="torch 2.5.1 with CUDA 12.1"),
    Case("torch==2.6.0", "12.4", "cuda-too-old-for-gpu", f"{PTXAS}: sm_120 from 12.8", "RTX 5090", nearest="torch 2.7.0 with CUDA 12.8 (driver R570 or newer)"),
    Case("torch==2.9.*", "13.0", "cuda-dropped-gpu", f"{PTXAS}: sm_70 up to 12.9", "V100", nearest="CUDA 12.9 with torch 2.9"),
    Case("torch==2.0.1", "11.7", "cuda-too-old-for-gpu", f"{PTXAS}: sm_90 from 11.8", "H100", python="3.10", nearest="CUDA 11.8 with torch 2.0.1"),
    Case("torch==2.1.0", "12.1", "driver-too-old", f"{CLAIMS}: d; {MINOR}", driver="470.57.02", python="3.10", nearest="CUDA 11.8 with torch 2.1.0 (driver >= 450.80.02); or if the machines can have it, update the driver to 525.60.13"),
    Case("torch==2.1.0", "11.8", "ok", f"{CLAIMS}: g, valid", python="3.10"),
    Case("torch==2.1.0", "11.8", "~driver-minor-version-compatibility", f"{CLAIMS}: c: 450.80.02 is the floor", driver="470.57.02", python="3.10"),
    Case("torch==2.1.0", "12.1", "~driver-minor-version-compatibility", f"{CLAIMS}: d: 525 is the floor, 530.30.02 native", driver="525.85.12", python="3.10"),
    Case("torch==2.1.0", "12.1", "python-too-new", f"{CLAIMS}: e, 2.1.0 has cp38 to cp311", python="3.12", nearest="torch 2.2.0 with CUDA 12.1, or Python 3.11"),
    # No build of this torch for this CUDA.
    Case("torch==2.7.1", "11.8", "ok", f"{WHEELS}: cu118's last"),
    Case("torch==2.8.0", "11.8", "no-build", WHEELS, nearest="torch 2.7.1 with CUDA 11.8, or CUDA 12.6 with torch 2.8.0"),
    Case("torch==2.5.1", "12.1", "ok", f"{WHEELS}: cu121's last"),
    Case("torch==2.9.1", "12.8", "ok", BINARY),
    Case("torch==2.9.1", "12.4", "no-build", WHEELS, nearest="torch 2.6.0 with CUDA 12.4, or CUDA 12.6"),
    Case("torch==2.12.0", "12.8", "no-build", f"{WHEELS}: cu128's last is 2.11.0", nearest="torch 2.11.0 with CUDA 12.8"),
    Case("torch==2.8.0", "13.0", "no-build", f"{WHEELS}: cu130 from 2.9.0", nearest="torch 2.9.0 with CUDA 13.0, or CUDA 12.9"),
    Case("torch==2.11.0", "13.2", "no-build", f"{WHEELS}: cu132 from 2.12.0", nearest="torch 2.15.0 with CUDA 13.2, or CUDA 13.0"),
    Case("torch>=2.6,<2.9", "11.8", "ok", f"{WHEELS}: 2.6.0 to 2.7.1 have it"),
    Case("torch==2.9.*", "12.7", "no-such-cuda", f"{DRIVERS}: 12.7 was never released", nearest="CUDA 12.8 with torch 2.9"),
    Case("torch", "13.0", "ok", "2.15.0 for CUDA 13.0 was announced and not seen; the spec doesn't ask for it", gpus="H100"),
    Case("torch>=2.14", "13.0", "ok", "2.15.0 for CUDA 13.0 was announced and not seen; 2.14 has been", gpus="H100"),
    Case("torch==2.15.0", "13.0", "-build-not-seen", "pytorch/pytorch#190385: planned", python="3.12"),
    Case("torch==2.5.7", "12.4", "no-such-torch", "the list of torch releases on PyPI", nearest="torch 2.6.0 with CUDA 12.4"),
    Case("torch==2.16.0", "13.2", "~torch-newer-than-tables", "a release newer than the tables is no error"),
    Case("torch>=3", "13.2", "~torch-newer-than-tables", "a release newer than the tables is no error"),
    Case("torch==1.13.1", "11.7", "~torch-older-than-tables", "the tables begin with 2.0.0", python="3.10"),
    # This architecture isn't in the build.
    Case("torch==2.7.1", "12.8", "architecture-missing", f"{WHEELS}: 2.7's cu128 begins at 7.5", "V100", nearest="torch 2.8.0 with CUDA 12.8, or CUDA 12.6 with torch 2.7.1"),
    Case("torch==2.8.0", "12.8", "ok", f"{BINARY}: sm_70 is back in 2.8.0", "V100"),
    Case("torch==2.10.0", "12.8", "ok", BINARY, "V100"),
    Case("torch==2.11.0", "12.8", "architecture-missing", "pytorch/pytorch#172352", "V100", nearest="torch 2.10.0 with CUDA 12.8"),
    Case("torch==2.14.1", "12.6", "~triton-architecture", "pytorch/pytorch RELEASE.md: cu126 keeps 5.0 to 9.0; triton 7.0", "V100 P100"),
    Case("torch==2.9.1", "12.8", "architecture-missing", BINARY, "P100", nearest="CUDA 12.6 with torch 2.9.1"),
    Case("torch==2.15.0", "13.2", "cuda-dropped-gpu", f"{PTXAS}; {BINARY}", "V100"),
    Case("torch==2.7.0", "12.6", "cuda-too-old-for-gpu", f"{PTXAS}: sm_100 from 12.8", "B200", nearest="CUDA 12.8 with torch 2.7.0 (driver R570 or newer)"),
    Case("torch==2.7.0", "12.8", "ok", f"{WHEELS}: 10.0 and 12.0 from 2.7.0's cu128", "B200 RTX-5090"),
    Case("torch==2.8.0", "12.8", "-triton-architecture", f"{BINARY}; cubin rule: sm_100 runs on 10.3, sm_120 on 12.1; triton-lang/triton#8539: its ptxas 12.8 refuses sm_103a and sm_121a", "B300"),
    Case("torch==2.8.0", "12.9", "-triton-architecture", f"{BINARY}; triton 3.4.0: ptxas of its wheel is CUDA 12.8, whose --help has no sm_121", "GB10", platform="linux-aarch64"),
    Case("torch==2.6.0", "12.4", "ok", f"{BINARY}; cubin rule: sm_86 runs on 8.9", "L40S RTX-4090"),
    Case("torch==2.0.1", "11.7", "ok", f"{BINARY}; cubin rule: sm_86 runs on 8.9, which 11.7 doesn't know", "RTX-4090", python="3.10"),
    Case("torch==2.9.1", "13.0", "ok", f"{WHEELS}: cu130 from 7.5 up", "T4 A100 H100 B200"),
    Case("torch==2.9.1", "12.8", "-triton-architecture", f"{BINARY}; triton-lang/triton#8539", "volta turing ampere ada hopper blackwell"),
    Case("torch==2.3.1", "11.8", "~triton-architecture", "pytorch/builder build_cuda.sh: cu118 begins at 3.7; triton at 7.0", "K80", python="3.10"),
    Case("torch==2.3.1", "12.1", "cuda-dropped-gpu", f"{PTXAS}: Kepler up to 11.8", "K80", python="3.10", nearest="CUDA 11.8 with torch 2.3.1"),
    Case("torch", "12.8", "-torch-narrowed", f"{BINARY}; pytorch/pytorch#172352: 2.11.0's cu128 has no sm_70", "V100"),
    Case("torch==2.9.1", "12.8", "architecture-missing", "pytorch/pytorch aarch64_ci_build.sh: 8.0 9.0 10.0 12.0", "T4", platform="linux-aarch64", nearest='cuda = "12.9" in the target and add "pytorch ==2.9.1" to [conda] dependencies and leave torch out'),
    Case("torch==2.9.1", "12.6", "architecture-missing", "PyTorch 2.15.0, DEVICE_REQUIREMENT: sm_80 doesn't run on 8.7 before CUDA 13.2", "Orin", platform="linux-aarch64", nearest="CUDA 13.0 with torch 2.9.1"),
    Case("torch==2.11.0", "13.0", "~jetpack", "nvidia-holoscan/holohub#1687: passes on an Orin with JetPack 7.2", "Orin", platform="linux-aarch64"),
    Case("", "12.9", "architecture-missing", "CUDA C++ Programming Guide: 7.0 isn't compatible with 7.2", "sm_72", conda="pytorch 2.12.*", platform="linux-aarch64"),
    Case("torch==2.9.1", "13.0", "-triton-architecture ~jetpack", "pytorch/pytorch aarch64_ci_build.sh: 11.0 in cu130; triton-inference-server#8632: triton 3.5's ptxas refuses sm_110a", "Thor GH200", platform="linux-aarch64"),
    Case("torch==2.9.1", "12.8", "unknown-gpu", "NVIDIA's lists of compute capabilities", "H1000", nearest='did you mean "H100"?'),
    # Drivers: native, minor-version, forward compatibility.
    Case("torch==2.9.1", "12.8", "ok", f"{DRIVERS}: 12.8 GA is 570.26", "H100", "570.26"),
    Case("torch==2.9.1", "12.8", "~driver-minor-version-compatibility", MINOR, "H100", "550.54.15"),
    Case("torch==2.9.1", "12.8", "~driver-minor-version-compatibility", f"{MINOR}: exactly the floor", "A100", "525.60.13"),
    Case("torch==2.9.1", "12.8", "driver-too-old", f"{MINOR}: one below the floor", "RTX 3090", "525.60.12", nearest="525.60.13"),
    Case("torch==2.9.1", "12.8", "driver-forward-compatibility", FORWARD, "A100", "470.223.02", nearest="cuda-compat = true"),
    Case("torch==2.9.1", "12.8", "driver-too-old", f"{FORWARD}: data-centre cards only", "A100 RTX-3090", "470.223.02"),
    Case("torch==2.9.1", "12.8", "driver-too-old", f"{FORWARD}: 515 isn't among them", "A100", "515.65.01"),
    Case("torch==2.9.1", "13.0", "driver-forward-compatibility", FORWARD, "H100", "550.54.15", nearest="CUDA 12.9 with torch 2.9.1"),
    Case("torch==2.9.1", "13.0", "driver-too-old", f"{MINOR}: 13.x needs 580", "RTX 4090", "570.124.06", nearest="580.65.06"),
    Case("torch==2.9.1", "13.0", "ok", DRIVERS, "H100", "580.65.06"),
    Case("torch==2.9.1", "12.8", "driver-too-old-for-gpu ~driver-minor-version-compatibility", f"{DRIVERS}: sm_120 came with R570", "RTX 5090", "550.54.15", nearest="R570"),
    Case("torch==2.9.1", "12.6", "driver-dropped-gpu", UNIX, "V100", "590.44.01", nearest="R580"),
    Case("torch==2.9.1", "12.6", "ok", UNIX, "V100", "580.95.05"),
    Case("torch==2.9.1", "12.8", "driver-too-old", f"{MINOR}: 528.33 on Windows", "RTX 3090", "526.98", platform="win-64"),
    # Python and glibc.
    Case("torch==2.9.1", "12.8", "python-too-old", WHEELS, python="3.9", nearest="Python 3.10"),
    Case("torch==2.8.0", "12.8", "ok", WHEELS, python="3.9"),
    Case("torch==2.8.0", "12.8", "python-too-new", WHEELS, python="3.14", nearest="torch 2.9.0 with CUDA 12.8"),
    Case("torch==2.15.0", None, "python-too-old", "the list of torch wheels on PyPI", python="3.10"),
    Case("torch==2.7.0", "12.6", "glibc-too-old", GLIBC, glibc="2.17", nearest="torch 2.6.0 with CUDA 12.4"),
    Case("torch==2.6.0", "12.4", "ok", GLIBC, glibc="2.17"),
    Case("torch==2.6.0", "12.6", "glibc-too-old", f"{GLIBC}; 2.6.0+cu126 is manylinux_2_28 already", glibc="2.17", nearest="CUDA 12.4 with torch 2.6.0"),
    Case("torch==2.6.0", None, "glibc-too-old", GLIBC, glibc="2.17", platform="linux-aarch64", nearest="torch 2.5.1 with the CPU"),
    # torchvision and torchaudio.
    Case("torch==2.9.1 torchvision==0.24.1 torchaudio==2.9.1", "12.8", "ok", REQUIRES),
    Case("torch==2.9.1 torchvision==0.20.1", "12.8", "companion-mismatch", REQUIRES, nearest="Nearest: torchvision 0.24.1 for torch 2.9.1"),
    Case("torch==2.6.0 torchvision==0.20.1", "12.4", "companion-mismatch", REQUIRES, nearest="torchvision 0.21.0 for torch 2.6.0, or torch 2.5.1 for torchvision 0.20.1"),
    Case("torch>=2.5 torchvision==0.20.1", "12.4", "ok", f"{REQUIRES}: torch 2.5.1 fits both"),
    Case("torch==2.1.0 torchaudio==2.2.0", "12.1", "companion-mismatch", REQUIRES, python="3.10"),
    Case("torch==2.13.0 torchaudio", "13.0", "ok", "PyTorch's documentation of torchaudio 2.11.0: any torch from 2.11 on"),
    Case("torchvision==0.24.1", "12.4", "no-build", f"{REQUIRES}: 0.24.1 brings in torch 2.9.1, which has no cu124"),
    Case("torch==2.15.0 torchvision==0.29.2", "13.2", "ok", REQUIRES),
    Case("torch==2.9.1 torchvision==0.99.0", "12.8", "~companion-newer-than-tables", REQUIRES),
    Case("torch==2.9.1 torchvision==0.24.7", "12.8", "no-such-companion", REQUIRES),
    # No CPU build in silence.
    Case("torch==2.9.1", None, "cpu-build", "a target without `cuda` takes the CPU build", "H100", nearest='cuda = "13.0" in the target; or leave `cuda` and `gpus` out'),
    Case("torch==2.9.1+cpu", "12.8", "cpu-build", "local versions of the PyTorch index"),
    Case("torch==2.9.1+cu126", "12.8", "cuda-mismatch", "local versions of the PyTorch index"),
    Case("torch==2.9.1+cu126", "12.6", "ok", "local versions of the PyTorch index"),
    Case("torch==2.9.1+cu126.sm90", "12.6", "ok", "a build for one architecture"),
    Case("torch==2.9.1+cu126.sm90", "12.8", "cuda-mismatch", "a build for one architecture"),
    Case("torch==2.6.0+cpu.cxx11.abi", None, "ok", "PyTorch's index cpu-cxx11-abi"),
    Case("torch==2.9.1+cu126", None, "cuda-mismatch", "local versions of the PyTorch index"),
    Case("torch==2.4.1", "12.4", "no-build", DEFAULTS, platform="linux-aarch64", nearest="torch 2.6.0 with CUDA 12.6"),
    Case("torch==2.9.1", "12.8", "no-cuda-platform", DEFAULTS, platform="osx-arm64", nearest="leave `cuda` and `gpus` out, for a CPU target"),
    Case("torch==2.9.1", None, "ok", DEFAULTS, platform="osx-arm64"),
    Case("torch==2.9.1", "12.9", "no-build", f"{WHEELS}: cu129 for Windows in 2.8.0 and 2.9.0 only", platform="win-64", nearest="torch 2.9.0 with CUDA 12.9, or CUDA 12.8"),
    # conda-forge's builds are others.
    Case("", "12.9", "ok", FEEDSTOCK, "H100", conda="pytorch 2.9.*"),
    Case("", "12.8", "no-build", f"{FEEDSTOCK}: cuda129 needs cuda-version >=12.9", conda="pytorch 2.8.*", nearest="pytorch 2.7.1 with CUDA 12.8, or CUDA 12.9 with pytorch 2.8"),
    Case("", "12.8", "ok", f"{FEEDSTOCK}: 2.7.1's cuda126 admits 12.8", conda="pytorch ==2.7.1"),
    Case("", "12.9", "-cudnn-architecture", f"{FEEDSTOCK}: 7.0 in cuda129; {CUDNN}", "V100", conda="pytorch >=2.12,<2.13"),
    *(
        Case("", "12.9", "ok", CUDNN, "V100", conda=f"pytorch >=2.12,<2.13, {older}")
        for older in ("cudnn <9.11", "cudnn 9.10.*", "conda-forge::cudnn ==9.10.1.4")
    ),
    Case("", "12.9", "-cudnn-architecture", CUDNN, "V100", conda="pytorch >=2.12,<2.13, cudnn >=9.1"),
    Case("", "12.6", "-ptx-only", f"{FEEDSTOCK}: 5.0 to 9.0+PTX", "B200", conda="pytorch 2.6.*"),
    Case("", "12.6", "-ptx-only -cudnn-architecture", f"{FEEDSTOCK}: 5.0 to 9.0+PTX; {CUDNN}", "V100 B200", conda="pytorch 2.6.*"),
    Case("", "12.6", "cpu-build", FEEDSTOCK, conda="pytorch 2.6.* cpu*"),
    Case("", None, "cuda-mismatch", FEEDSTOCK, conda="pytorch-gpu 2.9.*"),
    Case("", "13.0", "glibc-too-old", f"{FEEDSTOCK}: CUDA 13 builds on glibc 2.28", conda="pytorch 2.12.*", glibc="2.17", nearest="CUDA 12.9 with pytorch 2.12"),
]  # fmt: skip


CASES += [
    Case(**{"torch": "", "cuda": None, **row})
    for row in tomli.loads(Path(__file__).with_name("verdicts.toml").read_text(encoding="utf-8"))["cases"]
]
"""More of them as data, each with what its source says."""


def spec_of(case: Case) -> tuple[Spec, Target]:
    places = {key: Place("specs/s.toml", line, 1) for line, key in enumerate(KEYS, 11)}
    gpus = (case.gpus,) if find(case.gpus) else tuple(case.gpus.split())
    target = Target(
        "t",
        case.platform,
        case.cuda,
        gpus,
        case.driver,
        glibc=case.glibc,
        place=Place("specs/s.toml", 10, 1),
        places=places,
    )
    pip = tuple(Located(text, Place("specs/s.toml", 20 + i, 5)) for i, text in enumerate(case.torch.split()))
    conda = tuple(Located(text, Place("specs/s.toml", 30, 5)) for text in filter(None, case.conda.split(", ")))
    spec = Spec(
        "specs/s.toml",
        "s",
        case.python,
        (target,),
        pip=PipTable(pip),
        conda=CondaTable(("conda-forge",), conda),
        places={"env.python": Place("specs/s.toml", 3, 1)},
    )
    return spec, target


def verdict(findings: tuple[Finding, ...]) -> set[str]:
    marks = {"error": "", "warning": "-", "info": "~"}
    return {marks[finding.severity] + finding.code for finding in findings}


@cache
def judged(case: Case) -> Verdict:
    return judge(*spec_of(case))


@pytest.mark.parametrize("case", CASES, ids=[f"{case.id} -> {case.verdict}" for case in CASES])
def test_verdict(case: Case) -> None:
    findings = judged(case).findings
    assert verdict(findings) == (set() if case.verdict == "ok" else set(case.verdict.split())), findings
    if case.nearest:
        assert case.nearest in (findings[0].remedy or ""), findings[0]


def test_every_finding_is_placed_and_every_error_has_a_remedy() -> None:
    for finding in (finding for case in CASES for finding in judged(case).findings):
        assert finding.place is not None and finding.place.line
        assert finding.message and not finding.message.endswith(".")
        if finding.severity == "error":
            assert finding.remedy, finding


@pytest.mark.parametrize("case", [c for c in CASES if "with" in c.nearest or "conda" in c.nearest], ids=lambda c: c.id)
def test_the_nearest_change_works(case: Case) -> None:
    """What a remedy proposes is judged again: it must have no error."""
    findings = judged(case).findings
    text = findings[0].remedy or ""
    proposals = re.findall(r"(?:torch|pytorch) ([\d.]+) with CUDA ([\d.]+\d)", text)
    proposals += [("", cuda) for cuda in re.findall(r"CUDA ([\d.]+) with", text)]
    by_conda = re.findall(r'(?:cuda = "([\d.]+)" in the target and )?add "pytorch ==([\d.]+)" to \[conda\]', text)
    proposals += [(version, cuda or str(case.cuda)) for cuda, version in by_conda]
    cpu = re.findall(r"torch ([\d.]+) with the CPU", text)
    assert proposals or cpu
    for version, cuda in [*proposals, *((v, None) for v in cpu)]:
        torch, conda = ("", case.torch.replace("torch", "pytorch ")) if by_conda else (case.torch, case.conda)
        if version and torch:
            torch = f"torch=={version}"
        elif version:
            conda = f"pytorch =={version}"
        changed = Case(torch, cuda, "", "", case.gpus, case.driver, case.python, case.glibc, case.platform, conda)
        assert not judge(*spec_of(changed)).errors, (text, changed)
    for python in re.findall(r"Python (3\.\d+)", text):
        changed = Case(case.torch, case.cuda, "", "", case.gpus, case.driver, python, case.glibc, case.platform)
        assert not judge(*spec_of(changed)).errors


def test_a_verdict_says_what_its_findings_say() -> None:
    for found in map(judged, CASES):
        assert found.errors == tuple(finding for finding in found.findings if finding.severity == "error")
        if not found.errors:
            assert found.narrowed is ("-torch-narrowed" in verdict(found.findings))
        assert not found.feasible or (
            found.requirement is not None and set(found.feasible) <= set(found.requirement.versions())
        )


def test_a_way_is_none_that_the_companions_of_the_spec_refuse_or_no_build_is_for() -> None:
    """torch 2.5.1, which torchvision 0.20.1 is made for, has no build for CUDA 12.8; newer ones have."""
    mismatch, build = (
        judged(Case(f"torch=={torch} torchvision==0.20.1", "12.8", "", "")).findings for torch in ("2.9.1", "2.5.1")
    )
    assert "torch 2.5.1" not in str(mismatch[0].remedy)
    assert (
        build[0].code == "no-build" and build[0].remedy == "Nearest: CUDA 12.4 with torch 2.5.1 (driver >= 525.60.13)"
    )


def test_a_free_companion_leaves_every_way_open() -> None:
    (found,) = judged(Case("torch==2.9.1 torchvision", "12.4", "", "")).findings
    assert str(found.remedy).startswith("Nearest: torch 2.6.0 with CUDA 12.4, or CUDA 12.6 with torch 2.9.1")


@pytest.mark.parametrize("more", [1, 2, 3])
def test_what_admits_releases_that_are_newer_than_the_table(more: int) -> None:
    major, minor = numbers(torch_builds.newest().version)[:2]
    place = Place("specs/s.toml", 1, 1)
    assert admits_newer(FamilyRequirement("torch", parse(f"=={major}.{minor + more}.*"), place, "pip"))
    assert not admits_newer(FamilyRequirement("torch", parse(f"=={major}.{minor}.*"), place, "pip"))
