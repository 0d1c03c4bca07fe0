"""Demands that specs, locks and recipes meet as they ship."""

import re
from pathlib import Path

import pytest
from envspec_check.capability import covers
from envspec_check.lock import read_target
from support.machine import Machine
from support.recipes import RENDERED, all_recipes

from envspec.export.carried import carried_files
from envspec.facts.gpus import products
from envspec.lock.read import load
from envspec.lock.slice import slice_of

ROOT = Path(__file__).resolve().parents[2]


@RENDERED
def test_a1_every_gpu_since_ampere_has_a_target_of_mm_v2_9() -> None:
    """Whose architectures its own code is for; a Jetson shares its chip with an aarch64 CPU."""
    targets = [read_target(str(path)) for path in (all_recipes() / "mm-v2.9").glob("*/target.json")]
    gpus = [gpu for gpu in products() if float(gpu.capability) >= 8 and not gpu.integrated]
    assert {"A100 80GB", "A30", "L40S", "H100", "B200", "RTX 5090"} <= {
        gpu.name.removeprefix("GeForce ") for gpu in gpus
    }
    with_cuda = [one for one in targets if one["cuda"]]
    without = [
        gpu.name
        for gpu in gpus
        if not any(covers(one["architectures"], gpu.capability, one["cuda"]) for one in with_cuda)
    ]
    assert not without


@pytest.mark.parametrize(
    ("spec", "target", "gpu", "driver"),
    [("mm-v2.1", "cu118", "A100", "470.57.02"), ("llm-v2.9", "cu128-ampere", "A100", "525.60.13")],
)
def test_the_oldest_driver_asked_for_runs_a_target(
    machine: Machine, spec: str, target: str, gpu: str, driver: str
) -> None:
    """A1 and B1; of one that is older, doctor says no."""
    words = ["doctor", str(ROOT / "specs" / f"{spec}.toml"), "--target", target, "--gpu", gpu, "--driver"]
    assert f"{target}  feasible" in " ".join(machine.envspec(*words, driver, status=0).out.split(" ")).replace(
        "   ", "  "
    )
    machine.envspec(*words, "450.51.05", status=1)


def test_c1_an_rtx_4090_and_an_a100_get_the_same_files() -> None:
    lock = load(ROOT / "locks" / "team-v2.9" / "envspec.lock")
    by_gpu = {gpu: one for one in lock.targets for gpu in one.inputs.gpus}
    ada, ampere = (slice_of(lock, by_gpu[gpu]) for gpu in ("RTX 4090", "A100"))
    assert {one["name"] for one in ada["pip"]} >= {"torch", "nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12"}
    assert ada["pip"] == ampere["pip"]
    assert by_gpu["RTX 4090"].inputs.python == by_gpu["A100"].inputs.python == "3.10"


@RENDERED
def test_b4_no_recipe_gives_an_account_a_password() -> None:
    texts = [path.read_text("utf-8") for path in all_recipes().glob("*/*/Dockerfile")]
    assert texts and all("build.sh own " in text for text in texts)
    texts.append(carried_files()["build.sh"])
    assert "useradd" in texts[-1]
    assert not re.search(r"chpasswd|\bpasswd |useradd[^&\n]*(-p |--password)|sudo", "\n".join(texts))
