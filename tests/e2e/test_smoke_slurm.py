"""`cpu-py311` through a real single-node Slurm: submitted, lost, cancelled, broken, and taken over."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.recipes import recipe_texts
from support.slurm import slurm
from support.smoke_runs import ENVSPEC, SPEC, environment, skip_without_torch

from envspec.prove.smoke.run.process import tail

pytestmark = [
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.xdist_group("slurm"),  # one cluster a machine
    pytest.mark.network,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11"),
]


@pytest.fixture(scope="module")
def conf(slurm_cluster: Path) -> Path:
    return slurm_cluster


Smoke = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(conf: Path, tmp_path: Path) -> Iterator[Smoke]:
    started: list[subprocess.Popen[str]] = []

    def call(
        *arguments: str, env: dict[str, str] | None = None, program: Sequence[str] = ENVSPEC
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*program, "smoke", *arguments], cwd=tmp_path, env=environment({"SLURM_CONF": str(conf), **(env or {})}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield call
    for process in started:
        with process:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str], status: int, seconds: float = 900) -> dict[str, Any]:
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    if out.startswith("{"):
        skip_without_torch(out)
    assert process.returncode == status, out + err
    return json.loads(out) if out.startswith("{") else {}


def ask(conf: Path, *argv: str) -> str:
    env = {**os.environ, "SLURM_CONF": str(conf)}
    return subprocess.run(argv, capture_output=True, text=True, check=True, env=env).stdout


def job_of(results: Path) -> str:
    """The job's number, once envspec has written it down."""
    for _ in range(600):
        with_state = results / "state.json"
        if with_state.is_file() and (number := re.search(r'"job": "(\d+)"', with_state.read_text())):
            return number[1]
        time.sleep(0.2)
    raise AssertionError("no job was submitted")


def running(conf: Path, job: str) -> None:
    for _ in range(150):
        if "RUNNING" in ask(conf, "squeue", "--noheader", "--format=%T", f"--jobs={job}"):
            return
        time.sleep(0.2)
    raise AssertionError("the job doesn't run")


def checking(results: Path, job: str) -> None:
    """The first of the job's checks is over."""
    for _ in range(300):
        if "static." in tail(results / "jobs" / f"{job}.log"):
            return
        time.sleep(0.2)
    raise AssertionError("no check ends")


IMPATIENT = (
    sys.executable, "-c",
    "from envspec.prove.smoke.run import jobs; jobs.GRACE = 3; from envspec.cli import main; main.main()",
)  # fmt: skip
"""envspec that waits for late files no longer than a test should."""

LONG = (SPEC, "--runner", "slurm", "--only", "training", "--steps", "100000", "-o", "out")
"""A job that goes on until something ends it."""


@pytest.mark.nightly
def test_all_checks_pass_two_ranks_included(start: Smoke) -> None:
    document = ended(start(SPEC, "--runner", "slurm", "--json", "-o", "out"), 0)
    (run,) = document["runs"]
    assert (run["status"], run["runner"]) == ("pass", "slurm") and run["where"]
    collectives = {
        check["name"]: check["status"] for check in run["report"]["checks"] if check["group"] == "collectives"
    }
    assert "pass" in collectives.values() and "fail" not in collectives.values()


def test_a_matrix_is_an_array(start: Smoke, conf: Path, tmp_path: Path) -> None:
    """The same partition twice: two jobs, and every run found again."""
    arguments = (SPEC, "--runner", "slurm", "--partition", "main", "--partition", "main=c*", "--only", "static")
    document = ended(start(*arguments, "--json", "-o", "out"), 0)
    assert [run["status"] for run in document["runs"]] == ["pass", "pass"]
    assert all(run["where"].endswith("/main") for run in document["runs"])


def test_a_submitting_process_that_is_killed_is_taken_over(start: Smoke, conf: Path, tmp_path: Path) -> None:
    process = start(SPEC, "--runner", "slurm", "--only", "static", "--only", "operators", "-o", "out")
    job = job_of(tmp_path / "out")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    document = ended(start("--attach", job, "--json"), 0)
    assert [run["status"] for run in document["runs"]] == ["pass"]
    # and again, when Slurm has long done with it
    assert ended(start("--attach", str(tmp_path / "out"), "--json"), 0) == document


@pytest.mark.nightly
def test_a_number_that_was_never_written_down_is_found_by_the_jobs_name(
    start: Smoke, conf: Path, tmp_path: Path
) -> None:
    ended(start(*LONG, "--no-wait"), 0)
    state = tmp_path / "out" / "state.json"
    job = job_of(tmp_path / "out")
    state.write_text(state.read_text().replace(f'"job": "{job}"', '"job": null'))
    running(conf, job)
    ask(conf, "scancel", job)
    (run,) = ended(start("--attach", "out", "--json"), 3)["runs"]
    assert run["status"] == "error" and "was cancelled" in run["reason"]
    assert f'"job": "{job}"' in state.read_text()


def test_a_cancelled_job_is_an_error(start: Smoke, conf: Path, tmp_path: Path) -> None:
    """Its report, as far as it came, is shown all the same."""
    process = start(*LONG, "--only", "static", "--json")
    job = job_of(tmp_path / "out")
    running(conf, job)
    checking(tmp_path / "out", job)
    ask(conf, "scancel", job)
    (run,) = ended(process, 3)["runs"]
    assert run["status"] == "error" and "the job was cancelled (CANCELLED)" in run["reason"]
    assert "CANCELLED" in run["reason"].partition("\n")[2] and Path(run["log"]).is_file()
    assert run["report"]["complete"] is False and run["report"]["checks"][0]["status"] == "pass"


def test_a_job_that_dies_is_an_error(start: Smoke, conf: Path, tmp_path: Path) -> None:
    process = start(*LONG, "--json", program=IMPATIENT)
    job = job_of(tmp_path / "out")
    running(conf, job)
    ask(conf, "scancel", "--signal=KILL", "--full", job)
    (run,) = ended(process, 3)["runs"]
    assert run["status"] == "error" and run["report"] is None


def test_interrupted_waiting_leaves_the_job(start: Smoke, conf: Path, tmp_path: Path) -> None:
    process = start(*LONG)
    job = job_of(tmp_path / "out")
    running(conf, job)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the jobs keep running" in err and f"--attach {tmp_path / 'out'}" in err
    running(conf, job)
    ask(conf, "scancel", job)


def test_a_partition_that_isnt_there_is_told(start: Smoke) -> None:
    arguments = (SPEC, "--runner", "slurm", "--partition", "nosuch", "--json", "-o", "out")
    (run,) = ended(start(*arguments), 3)["runs"]
    assert "sbatch refused the job" in run["reason"] and "nosuch" in run["reason"]


def test_a_folder_of_jobs_is_used_once(start: Smoke) -> None:
    ended(start(SPEC, "--runner", "slurm", "--only", "static", "--json", "-o", "out"), 0)
    process = start(SPEC, "--runner", "slurm", "-o", "out")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "--attach" in err


@pytest.mark.nightly
def test_two_nodes_train_together(tmp_path: Path) -> None:
    """A Slurm of two nodes, which are both this machine: the checks on each, then Gloo between them under torchrun."""
    with slurm(tmp_path / "slurm", 2) as path:
        arguments = ("--runner", "slurm", "--nodes", "2", "--only", "device", "--only", "static", "--json", "-o", "out")
        try:
            ran = subprocess.run(
                [*ENVSPEC, "smoke", SPEC, *arguments], cwd=tmp_path, env=environment({"SLURM_CONF": str(path)}),
                capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            logs = [*(tmp_path / "out" / "jobs").glob("*.log"), *(tmp_path / "slurm").glob("*.log")]
            told = "\n".join(f"{log.name}:\n{log.read_text()[-3000:]}" for log in logs)
            pytest.fail(f"no end after 600 s\n{ask(path, 'squeue')}{ask(path, 'sinfo', '-R')}{told}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    runs = json.loads(ran.stdout)["runs"]
    assert [run["where"] for run in runs][2] == "across 2 nodes"
    assert {run["where"] for run in runs[:2]} == {"localhost", socket.gethostname().partition(".")[0]}
    together = {check["name"]: check for check in runs[2]["report"]["checks"]}
    assert together["collectives.multi_node_all_reduce"]["details"]["ranks"] == 4
    assert together["collectives.multi_node_ddp"]["details"]["groups"] == 2
    assert {check["status"] for check in together.values()} == {"pass"}


@pytest.mark.parametrize("arguments", [[], ["train.py", "--epochs", "3"]], ids=["smoke", "training"])
def test_slurm_takes_the_exported_job(conf: Path, tmp_path: Path, arguments: list[str]) -> None:
    job = tmp_path / "job.sbatch"
    job.write_text(recipe_texts("cpu-py311")["job.sbatch"])
    env = environment({"SLURM_CONF": str(conf)})
    command = ["sbatch", "--test-only", str(job), *arguments]
    told = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert told.returncode == 0 and "to start at" in told.stderr, told.stderr
