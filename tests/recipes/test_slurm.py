"""Slurm jobs: what `srun` is asked for, seen by running the script with a program in its place that says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from recipe_plans import shipped

from envspec.recipes.slurm import APPTAINER_JOB, PYXIS_JOB, render

_SRUN = '#!/bin/sh\nfor word; do printf "<%s> " "$word"; done\n'
_SCONTROL = "#!/bin/sh\necho node-07\necho node-08\n"


def run(tmp_path: Path, script: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    given = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_JOB_ID": "123456",
        "SLURM_JOB_NODELIST": "node-[07-08]",
        "SLURM_JOB_NUM_NODES": "2",
        **env,
    }
    return subprocess.run(
        ["bash", "-s", "--", *arguments], input=script, text=True, capture_output=True, check=False, env=given
    )


@pytest.mark.parametrize("job", [APPTAINER_JOB, PYXIS_JOB])
def test_training_meets_on_the_first_node(tmp_path: Path, job: str) -> None:
    script = render(shipped("mm-v2.9", "cu128-hopper"))[job]
    (tmp_path / "mm-v2.9-cu128-hopper.sif").touch()
    ran = run(tmp_path, script, "train.py", "--name", "a b", SLURM_GPUS_ON_NODE="4")
    assert ran.returncode == 0, ran.stderr
    assert "<torchrun> <--nnodes=2> <--nproc-per-node=4> <--rdzv-id=123456> <--rdzv-backend=c10d>" in ran.stdout
    assert "<--rdzv-endpoint=node-07:23456> <train.py> <--name> <a b>" in ran.stdout


def test_apptainer_sees_the_gpu_and_no_home(tmp_path: Path) -> None:
    ran = run(tmp_path, render(shipped("mm-v2.9", "cu128-hopper"))[APPTAINER_JOB], ENVSPEC_SIF=__file__)
    assert f"<apptainer> <exec> <--nv> <--no-home> <--bind> <{tmp_path}>" in ran.stdout
    assert ran.stdout.endswith(f"<{__file__}> <sh> <{'/opt/envspec'}/entrypoint.sh> <smoke> ")


def test_pyxis_gets_the_image_and_the_folder(tmp_path: Path) -> None:
    ran = run(tmp_path, render(shipped("mm-v2.9", "cu128-hopper"))[PYXIS_JOB], ENVSPEC_IMAGE="team/mm:1")
    assert "<--container-image=team/mm:1> <--no-container-mount-home>" in ran.stdout
    assert f"<--container-mounts={tmp_path}:{tmp_path}>" in ran.stdout


def test_a_missing_image_is_said_before_a_node_is_used(tmp_path: Path) -> None:
    ran = run(tmp_path, render(shipped("mm-v2.9", "cu128-hopper"))[APPTAINER_JOB])
    assert ran.returncode == 2 and "set ENVSPEC_SIF" in ran.stderr and not ran.stdout


def test_a_cpu_target_asks_for_no_gpu() -> None:
    for text in render(shipped("cpu-py311", "cpu")).values():
        assert "gpu" not in text.lower() and "--nv" not in text


def test_options_stand_before_the_first_command() -> None:
    # sbatch stops reading #SBATCH lines at the first command
    for text in render(shipped("mm-v2.9", "cu128-hopper")).values():
        head = text.partition("set -euo pipefail")[0]
        assert head.count("#SBATCH") == text.count("#SBATCH") == 7
        assert all(line.startswith("#") for line in head.splitlines())
