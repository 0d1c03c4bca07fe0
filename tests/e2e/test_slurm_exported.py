"""The exported Slurm job in a real Slurm: what the container gets of the caller's environment, the warning before the
end, and the queue afterwards. Stand-ins for Apptainer and torchrun, which do no more than start processes as those do.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import of_target

from envspec.base.user_config import SlurmSite
from envspec.export.site_build import variables
from envspec.export.slurm import APPTAINER_JOB, render
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
def conf(slurm_cluster: Path) -> Path:
    return slurm_cluster


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


RESUMES = """
at=$(cat "$1/checkpoint" 2>/dev/null || echo 0)
echo "run ${SLURM_RESTART_COUNT:-0} from $at" >>"$1/said"
trap 'echo "$at" >"$1/checkpoint"; exit 0' USR1
for ((; at < 40; at++)); do
    [[ ${SLURM_RESTART_COUNT:-0} == 0 && $at == 20 ]] && touch "$1/ready" && while :; do sleep 0.2; done
    sleep 0.01
done
rm -f "$ENVSPEC_CHECKPOINT"
echo "done at $at" >>"$1/said"
"""


@pytest.mark.nightly
def test_a_job_whose_time_ends_is_warned_saves_is_queued_again_and_resumes(ask: Ask, tmp_path: Path) -> None:
    """The warning is Slurm's own, before its time limit; then the queue, and the rest from the checkpoint."""
    (tmp_path / "job.sbatch").write_text(job_of(SlurmTable(requeue=True, signal="USR1@60")))
    (tmp_path / "train.sh").write_text(RESUMES)
    # Slurm sends the signal up to a minute early
    job = ask("sbatch", "--parsable", "--time=2", "job.sbatch", "train.sh", str(tmp_path)).strip()
    try:
        appears(tmp_path / "ready", tmp_path)
        waits(ask, job, "Restarts=1", "JobState=PENDING", seconds=120)
        assert (tmp_path / "checkpoint").read_text() == "20\n"
        # a job waits two minutes before it starts again
        ask("scontrol", "update", f"jobid={job}", "starttime=now")
        waits(ask, job, "Restarts=1", "JobState=COMPLETED", "ExitCode=0:0", seconds=120)
        assert (tmp_path / "said").read_text().splitlines() == ["run 0 from 0", "run 1 from 20", "done at 40"]
    finally:
        ask("scancel", job)


def waits(ask: Ask, job: str, *states: str, seconds: int) -> None:
    for _ in range(seconds * 4):
        shown = ask("scontrol", "show", "job", job)
        if all(state in shown for state in states):
            return
        time.sleep(0.25)
    raise AssertionError(shown)


@pytest.mark.nightly
def test_slurm_places_a_job_by_the_features_that_a_site_named(ask: Ask, tmp_path: Path) -> None:
    site = SlurmSite(features={"A100": "a100", "hopper": "h100"}, drivers={"550": "drv550", "580": "drv580"})
    node = ask("sinfo", "-h", "-N", "-o", "%N").split()[0]
    (tmp_path / "job.sbatch").write_text(job_of(SlurmTable()))
    before = ask("sinfo", "-h", "-N", "-o", "%f").split()[0].replace("(null)", "")

    def placed(architectures: tuple[str, ...], floor: str) -> bool:
        given = variables(site, SlurmTable(), architectures, floor)
        try:
            ask("sbatch", "--test-only", "job.sbatch", "train.py", **given)
        except AssertionError as refused:
            if "node configuration is not available" not in str(refused):
                raise
            return False
        return True

    def has(features: str) -> None:
        ask("scontrol", "update", f"nodename={node}", f"availablefeatures={features}", f"activefeatures={features}")

    try:
        has("a100,drv580")  # from here on the cluster knows them, as one whose nodes differ
        has("h100,drv550")
        assert placed(("sm_90",), "525.60.13") and placed(("sm_80", "sm_90"), "550")
        assert not placed(("sm_80",), "525.60.13")  # the GPUs are others
        assert not placed(("sm_90",), "570")  # the driver is older
        assert placed(("sm_70",), "470")  # the site named no such GPU: the driver alone is asked for
    finally:
        has(before)
