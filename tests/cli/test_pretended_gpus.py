"""What commands and images make of several GPUs, unlike ones and MIG, by a pretended NVML: its answers are given, all
else is real. Nothing computes here: tests/prove/smoke/test_pretended_cuda.py runs the check.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from support.compiled import needs_compiler
from support.machine import ROOT
from support.once import once
from support.pretended_nvml import environment

pytestmark = [needs_compiler, pytest.mark.slow]

H100, A100, RTX = "NVIDIA H100 80GB HBM3,9,0,0", "NVIDIA A100-SXM4-80GB,8,0,0", "NVIDIA GeForce RTX 3090,8,6,0"
SLICED = "NVIDIA H100 80GB HBM3,9,0,1"
PREFLIGHT = ROOT / "envspec" / "carried" / "preflight.py"


def ran(folder: Path, gpus: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    env = environment(folder, *gpus, ENVSPEC_CACHE_DIR=str(folder / "cache"), PYTHONPATH=str(ROOT / "check"))
    env.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        environment(folder)

    return once(tmp_path_factory, "pretended-nvml", make)


@pytest.mark.parametrize(
    ("gpus", "fits", "why"),
    [
        ((H100, H100), {"cu128-hopper", "cu130-hopper"}, "sm_80, this machine's GPUs are 9.0, 9.0"),
        ((SLICED,), {"cu128-hopper", "cu130-hopper"}, "sm_80, this machine's GPUs are 9.0"),
        ((A100, H100), set(), "sm_90, this machine's GPUs are 8.0, 9.0"),
        ((RTX,), set(), "sm_80, this machine's GPUs are 8.6"),
        ((RTX, "near"), {"cu128-ampere"}, "sm_90, this machine's GPUs are 8.6"),
    ],
    ids=["two", "MIG", "unlike", "another", "near"],
)
def test_the_plan_says_which_targets_a_machine_s_gpus_run(
    library: Path, gpus: tuple[str, ...], fits: set[str], why: str
) -> None:
    near = ["--near"] if "near" in gpus else []
    gpus = tuple(one for one in gpus if one != "near")
    done = ran(library, gpus, "-m", "envspec", "smoke", "specs/mm-v2.9.toml", "--dry-run", *near)
    assert done.returncode == 0, done.stderr
    runs = {line.split(" × ")[1] for line in done.stdout.splitlines() if line.startswith("mm-v2.9 × ")}
    assert runs - {"cpu"} == fits
    assert why in done.stdout
    plan = next(line for line in done.stdout.splitlines() if line.startswith("plan: "))
    assert plan.startswith(f"plan: {len(runs)} of 6 targets, at most ")
    for target in fits:
        assert f"  mm-v2.9 × {target}: " in done.stdout


def test_doctor_names_each_gpu(library: Path) -> None:
    told = ran(library, (SLICED, A100), "-m", "envspec", "doctor").stdout
    assert "NVIDIA H100 80GB HBM3 (sm_90, 80 GiB, MIG); NVIDIA A100-SXM4-80GB (sm_80, 80 GiB)\n" in told


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ((H100, H100), ""),
        ((SLICED,), ""),
        ((A100, H100), "this image was locked for H100 or H200, and here is NVIDIA A100-SXM4-80GB (8.0)"),
        ((), "no GPU is visible"),
    ],
)
def test_an_image_s_preflight_on_several_gpus(library: Path, gpus: tuple[str, ...], says: str) -> None:
    target = ROOT / "recipes" / "mm-v2.9" / "cu128-hopper" / "target.json"
    done = ran(library, gpus, str(PREFLIGHT), str(target))
    assert done.returncode == 0 and says in done.stderr and bool(says) is bool(done.stderr), done.stderr
