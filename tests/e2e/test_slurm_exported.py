"""The exported Slurm job in a real Slurm: what the container gets of the caller's environment, the warning before the
end, and the queue afterwards. Stand-ins for Apptainer and torchrun, which do no more than start processes as those do.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

sys.path.append(str(Path(__file__).parents[1] / "export"))
from recipe_plans import of_target

from envspec.app.site_policy import fabric_variables
from envspec.base.places import LIBRARIES
from envspec.configuration.user_config import FabricSite, SlurmSite
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
WARNED_SH = Path(__file__).parents[2] / "envspec" / "carried" / "warned.sh"
PROGRAM = """
env >"$1/environment"
trap 'echo saved >>"$1/said"; [[ -e $ENVSPEC_CHECKPOINT ]] && echo 7 >"$ENVSPEC_CHECKPOINT"; kill $!; exit 0' USR1
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
    for name, text in (*STAND_INS.items(), ("warned.sh", WARNED_SH.read_text())):
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
        assert (tmp_path / "said").read_text().split() == ["saved"]
    finally:
        ask("scancel", job)


@pytest.mark.nightly
def test_a_sites_fabric_reaches_the_container(ask: Ask, tmp_path: Path) -> None:
    site = FabricSite("slingshot", libraries=("/opt/ofi/lib",), variables={"FI_CXI_RDZV_PROTO": "default"})
    given = fabric_variables(site, {"SLURM_JOB_NUM_NODES": "2"})
    given["APPTAINERENV_LD_LIBRARY_PATH"] = given.pop(LIBRARIES)
    (tmp_path / "job.sbatch").write_text(job_of(SlurmTable()))
    (tmp_path / "train.sh").write_text('env >"$1/environment"\n')
    ask("sbatch", "--wait", "--time=5", "job.sbatch", "train.sh", str(tmp_path), **given)
    seen = dict(line.partition("=")[::2] for line in (tmp_path / "environment").read_text().splitlines())
    inside = {name.removeprefix("APPTAINERENV_"): value for name, value in given.items()}
    assert inside.items() <= seen.items()
    assert (seen["NCCL_NET"], seen["FI_CXI_RDZV_PROTO"]) == ("AWS Libfabric", "default")
    assert seen["LD_LIBRARY_PATH"] == "/opt/ofi/lib"


ENDS = {
    # looks for the file, and takes its time to end
    "polls": """
touch "$1/ready"
until [[ -e $ENVSPEC_CHECKPOINT || -e $1/enough ]]; do sleep 0.1; done
[[ -e $1/enough ]] || printf %s "${SAYS-7}" >"$ENVSPEC_CHECKPOINT"
[[ ${2:-} != after ]] || sleep 600
sleep 2
exit "${STATUS:-0}"
""",
    "handles": """
trap '[[ ${2:-} == after ]] || until="$1/ready"; printf %s "${SAYS-7}" >"$ENVSPEC_CHECKPOINT"' USR1
touch "$1/ready"
until=$1/enough
until [[ -e $until ]]; do sleep 0.1; done
exit "${STATUS:-0}"
""",
    "neither": """
touch "$1/ready"
until [[ -e $1/enough ]]; do sleep 0.1; done
exit "${STATUS:-0}"
""",
}
WARNED = SlurmTable(requeue=True, signal="USR1@60", environment=("SAYS", "STATUS"))


def started(ask: Ask, folder: Path, kind: str, *words: str, **env: str) -> str:
    (folder / "job.sbatch").write_text(job_of(WARNED))
    (folder / "train.sh").write_text(ENDS[kind])
    job = ask("sbatch", "--parsable", "--time=5", *words[1:], "job.sbatch", "train.sh", str(folder), *words[:1], **env)
    appears(folder / "ready", folder)
    return job.strip()


@pytest.mark.parametrize("kind", ENDS)
def test_a_program_that_ends_before_a_warning_is_done(ask: Ask, tmp_path: Path, kind: str) -> None:
    job = started(ask, tmp_path, kind)
    (tmp_path / "enough").touch()
    waits(ask, job, "Restarts=0", "JobState=COMPLETED", "ExitCode=0:0", seconds=30)
    assert not [*tmp_path.glob(".checkpoint*")]


@pytest.mark.parametrize(("kind", "says"), [("polls", "7"), ("handles", "7"), ("polls", ""), ("neither", "")])
def test_a_program_that_ends_while_it_is_warned_says_whether_it_goes_on(
    ask: Ask, tmp_path: Path, kind: str, says: str
) -> None:
    """By what it writes into the file; one that only ends well is done, and none ends by the signal."""
    job = started(ask, tmp_path, kind, SAYS=says)
    ask("scancel", "--batch", "--signal=USR1", job)
    if kind == "neither":
        time.sleep(3)
        (tmp_path / "enough").touch()
    if says:
        waits(ask, job, "Restarts=1", "JobState=PENDING", seconds=30)
        (last,) = tmp_path.glob(".checkpoint*")
        assert (last.name, last.read_text()) == (f".checkpoint-{job}.last", "7")
        ask("scancel", job)
    else:
        waits(ask, job, "Restarts=0", "JobState=COMPLETED", "ExitCode=0:0", seconds=30)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ENDS)
def test_a_program_that_outlives_its_warning_ends_with_its_time(ask: Ask, tmp_path: Path, kind: str) -> None:
    job = started(ask, tmp_path, kind, "after", "--time=1")
    waits(ask, job, "Restarts=0", "JobState=TIMEOUT", seconds=200)
    assert (tmp_path / f".checkpoint-{job}").read_text() == ("" if kind == "neither" else "7")


@pytest.mark.parametrize(("says", "status", "ends"), [("7", "0", "COMPLETED"), ("", "3", "FAILED"), ("8", "3", "")])
def test_a_job_goes_on_as_long_as_there_is_progress(
    ask: Ask, tmp_path: Path, says: str, status: str, ends: str
) -> None:
    """Also after a failure, but for one that came before the warning."""
    job = started(ask, tmp_path, "polls", SAYS=says, STATUS=status)
    (tmp_path / f".checkpoint-{job}.last").write_text("7" if says else "")
    ask("scancel", "--batch", "--signal=USR1", job)
    if ends:
        waits(ask, job, "Restarts=0", f"JobState={ends}", seconds=30)
        assert "no progress since the last start" in (tmp_path / f"cpu-py311-{job}.out").read_text()
    else:
        waits(ask, job, "Restarts=1", "JobState=PENDING", seconds=30)
        ask("scancel", job)


@pytest.mark.nightly
def test_a_job_is_queued_again_as_often_as_the_spec_allows(ask: Ask, tmp_path: Path) -> None:
    """Also where each start writes another text."""
    (tmp_path / "job.sbatch").write_text(job_of(replace(WARNED, max_requeues=1)))
    (tmp_path / "train.sh").write_text("SAYS=${SLURM_RESTART_COUNT:-0}\n" + ENDS["polls"])
    job = ask("sbatch", "--parsable", "--time=5", "job.sbatch", "train.sh", str(tmp_path)).strip()
    try:
        appears(tmp_path / "ready", tmp_path)
        ask("scancel", "--batch", "--signal=USR1", job)
        waits(ask, job, "Restarts=1", "JobState=PENDING", seconds=30)
        (tmp_path / "ready").unlink()
        ask("scontrol", "update", f"JobId={job}", "StartTime=now")
        waits(ask, job, "Restarts=1", "JobState=RUNNING", seconds=120)
        appears(tmp_path / "ready", tmp_path)
        ask("scancel", "--batch", "--signal=USR1", job)
        waits(ask, job, "Restarts=1", "JobState=COMPLETED", "ExitCode=0:0", seconds=30)
        assert "max-requeues is 1: not queued again" in (tmp_path / f"cpu-py311-{job}.out").read_text()
    finally:
        ask("scancel", job)


def test_srun_starts_the_ranks_where_it_is_asked_to(ask: Ask, tmp_path: Path) -> None:
    """As Lightning, Megatron and mpi4py want: one process a rank, each with its number and where all meet."""
    (tmp_path / "job.sbatch").write_text(job_of(replace(WARNED, launch="srun", mpi="pmi2", environment=())))
    (tmp_path / "tools" / "python").write_text('#!/bin/sh\nexec bash "$@"\n')
    (tmp_path / "tools" / "python").chmod(0o755)
    (tmp_path / "train.sh").write_text(
        'echo "$RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE, $PMI_RANK of $PMI_SIZE" >>"$1/said"\n'
        'trap \'echo "$RANK saved" >>"$1/said"; exit 0\' USR1\n'
        '[[ $MASTER_ADDR && $MASTER_PORT == [23]???? ]] && touch "$1/ready-$RANK"\n'
        "while sleep 0.2; do :; done\n"
    )
    argv = ("sbatch", "--parsable", "--cpus-per-task=2", "--time=5", "job.sbatch", "train.sh", str(tmp_path))
    job = ask(*argv, ENVSPEC_RANKS_PER_NODE="2").strip()
    try:
        for rank in (0, 1):
            appears(tmp_path / f"ready-{rank}", tmp_path)
        ask("scancel", "--batch", "--signal=USR1", job)
        waits(ask, job, "Restarts=0", "JobState=COMPLETED", "ExitCode=0:0", seconds=30)
        said = sorted((tmp_path / "said").read_text().splitlines())
        assert said == ["0 of 2, 0 of 2, 0 of 2", "0 saved", "1 of 2, 1 of 2, 1 of 2", "1 saved"]
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
trap 'echo "$at" | tee "$1/checkpoint" >"$ENVSPEC_CHECKPOINT"; exit 0' USR1
for ((; at < 40; at++)); do
    [[ ${SLURM_RESTART_COUNT:-0} == 0 && $at == 20 ]] && touch "$1/ready" && while :; do sleep 0.2; done
    sleep 0.01
done
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
