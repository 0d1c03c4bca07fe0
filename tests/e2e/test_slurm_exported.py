"""The exported Slurm job in a real Slurm: what the container gets of the caller's environment, the warning before the
end, and the queue afterwards. Stand-ins for Apptainer and torchrun, which do no more than start processes as those do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.slurm import slurm

sys.path.append(str(Path(__file__).parents[1] / "recipes"))
from recipe_plans import of_target

from envspec.recipes.slurm import APPTAINER_JOB, render
from envspec.spec.cluster import SlurmTable

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.xdist_group("slurm")]  # one cluster a machine

STAND_INS = {
    # with --cleanenv a container has what APPTAINERENV_NAME says; then the command behind the image
    "apptainer": """#!/bin/bash
[[ " $* " == *" --cleanenv "* ]] || exit 9
while [[ $1 != *.sif ]]; do shift; done
shift
kept=()
while IFS= read -r name; do kept+=("${name#APPTAINERENV_}=${!name}"); done < <(compgen -e APPTAINERENV_)
exec env -i PATH="$PATH" "${kept[@]}" "${@//\\/opt\\/envspec/$STAND_INS}"
""",
    "entrypoint.sh": '#!/bin/sh\nexec "$@"\n',
    # ends by a signal that it doesn't know; its children have a rank and a session of their own
    "torchrun": """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
LOCAL_RANK=0 setsid bash "$@" &
wait $!
""",
}
PROGRAM = """
env >"$1/environment"
trap 'echo saved >>"$1/said"; [[ -e $ENVSPEC_CHECKPOINT ]] && echo file >>"$1/said"; kill $!; exit 0' USR1
(trap 'echo loader >>"$1/said"' USR1; touch "$1/loads"; while sleep 0.2; do :; done) & # a worker that loads data
touch "$1/ready"
wait
"""
Ask = Callable[..., str]


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with slurm(tmp_path_factory.mktemp("slurm")) as path:
        yield path


@pytest.fixture
def ask(conf: Path, tmp_path: Path) -> Ask:
    """Run one of Slurm's programs in a folder with the stand-ins and the image; gives what it says."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in STAND_INS.items():
        text = text.replace("$STAND_INS", str(tools).replace("/", "\\/"))
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (tmp_path / "cpu-py311-cpu.sif").touch()
    (tmp_path / "train.sh").write_text(PROGRAM)

    def call(*argv: str, **env: str) -> str:
        path = f"{tools}:{os.environ['PATH']}"
        given = {**os.environ, "SLURM_CONF": str(conf), "PATH": path, **env}
        ran = subprocess.run(argv, cwd=tmp_path, env=given, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return call


def appears(path: Path, job: Path) -> None:
    for _ in range(300):
        if path.exists():
            return
        time.sleep(0.1)
    raise AssertionError(f"no {path.name}: {[log.read_text() for log in job.glob('*.out')]}")


def job_of(asked: SlurmTable) -> str:
    return render(replace(of_target("cpu-py311", "cpu"), slurm=asked))[APPTAINER_JOB]


def test_a_warned_job_saves_and_is_queued_again_with_the_environment_that_it_asked_for(
    ask: Ask, tmp_path: Path
) -> None:
    asked = SlurmTable(requeue=True, signal="USR1@60", environment=("WANDB_*",), memory="0", options=("--nice=7",))
    (tmp_path / "job.sbatch").write_text(job_of(asked))
    secrets = {"PYTHONPATH": "/else", "CUDA_HOME": "/usr/local/cuda", "TMPDIR": "/nowhere", "NCCL_DEBUG": "INFO"}
    argv = ("sbatch", "--parsable", "--time=5", "job.sbatch", "train.sh", str(tmp_path))
    job = ask(*argv, **secrets, WANDB_MODE="offline", HF_TOKEN="t").strip()
    try:
        appears(tmp_path / "ready", tmp_path)
        appears(tmp_path / "loads", tmp_path)
        shown = ask("scontrol", "show", "job", job)
        assert "Nice=7" in shown and "Requeue=1" in shown
        seen = dict(line.partition("=")[::2] for line in (tmp_path / "environment").read_text().splitlines())
        assert seen["NCCL_DEBUG"] == "INFO" and seen["WANDB_MODE"] == "offline" and seen["SLURM_JOB_ID"] == job
        assert not {"PYTHONPATH", "CUDA_HOME", "TMPDIR", "HF_TOKEN"} & seen.keys()
        # what Slurm itself sends before the end
        ask("scancel", "--batch", "--signal=USR1", job)
        for _ in range(300):
            shown = ask("scontrol", "show", "job", job)
            if queued := "Restarts=1" in shown and "JobState=PENDING" in shown:  # until it is off its node, COMPLETING
                break
            time.sleep(0.1)
        assert queued, shown
        assert (tmp_path / "said").read_text().split() == ["saved", "file"]
    finally:
        ask("scancel", job)


@pytest.mark.parametrize(
    "asked",
    [
        SlurmTable(
            partition="main", constraint=None, time="0-01:00", requeue=True, signal="TERM@120", options=("--exclusive",)
        ),
        SlurmTable(max_restarts=3, min_nodes=1),
    ],
    ids=["asked", "elastic"],
)
def test_slurm_takes_the_job(ask: Ask, tmp_path: Path, asked: SlurmTable) -> None:
    (tmp_path / "job.sbatch").write_text(job_of(asked))
    ask("sbatch", "--test-only", "job.sbatch", "train.py")
