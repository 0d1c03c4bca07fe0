"""Handing jobs to Slurm: refusals, lost answers, and what a job asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from runner_samples import case
from slurm_answers import FAILED, TWO, asking, plan, waited

from envspec.prove.smoke.run.case import Folders, SmokeCase
from envspec.prove.smoke.run.jobs import find_lost_jobs, may_have_job, submit
from envspec.prove.smoke.run.process import FinishedProgram
from envspec.prove.smoke.run.slurm import Partition, Resources
from envspec.prove.smoke.run.submitted import Submitted, read_submission

SBATCH = f"""#!/bin/bash
refuse() {{
    echo "{FAILED} $*" >&2
    exit 1
}}
case "$*" in
*--partition=bad*) refuse no such partition ;;
*--partition=lost*) refuse Socket timed out on send/recv operation ;;
*--partition=small*--cpus-per-task*) refuse Requested node configuration is not available ;;
esac
echo 42
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Folders]:
    """Folders, and an sbatch and a squeue in PATH; the squeue does what is given."""

    def make(squeue: str) -> Folders:
        programs = tmp_path / "bin"
        programs.mkdir()
        for name, text in (("sbatch", SBATCH), ("squeue", f"#!/bin/bash\n{squeue}\n")):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        return Folders(tmp_path / "cache", tmp_path / "results")

    return make


def test_a_refused_job_doesnt_stop_the_others(cluster: Callable[[str], Folders]) -> None:
    folders = cluster("")
    made = plan((case(),), [Partition("bad"), Partition("good")], Resources(), folders)
    whole = submit(made, Submitted(()))
    assert [job.job for job in whole.jobs] == [None, "42"]
    assert "no such partition" in (whole.jobs[0].refused or "")
    assert read_submission(folders.results) == whole


def test_a_job_whose_answer_was_lost_is_looked_for(cluster: Callable[[str], Folders]) -> None:
    made = plan((case(),), [Partition("lost")], Resources(), cluster("echo '17|17'"))
    assert submit(made, Submitted(())).jobs[0].job == "17"


@pytest.mark.parametrize("squeue", ["exit 1", ""], ids=["away", "not yet there"])
def test_a_job_whose_answer_was_lost_isnt_refused(cluster: Callable[[str], Folders], squeue: str) -> None:
    folders = cluster(squeue)
    whole = submit(plan((case(),), [Partition("lost")], Resources(), folders), Submitted(()))
    (job,) = whole.jobs
    assert (job.job, job.refused) == (None, None) and "Socket timed out" in (job.unsure or "")
    assert read_submission(folders.results) == whole
    # a later envspec finds it, or says what was said
    assert find_lost_jobs(whole, asking({"--name": FinishedProgram(0, "17|17\n")})).jobs[0].job == "17"
    (run,) = waited(whole, folders.results, {})
    assert run.status == "error" and "Socket timed out" in (run.reason or "")


@pytest.mark.parametrize(
    ("done", "may"),
    [
        (FinishedProgram(124, "no answer within 120 s"), True),
        (FinishedProgram(-9), True),
        (FinishedProgram(0, "a banner of the site"), True),
        (FinishedProgram(1, f"{FAILED} Unable to contact slurm controller (connect failure)"), True),
        (FinishedProgram(1, f"{FAILED} Zero Bytes were transmitted or received"), True),
        (FinishedProgram(1, f"{FAILED} Invalid account or account/partition combination"), False),
        (FinishedProgram(1, "No clusters can be reached now. Contact your admin to resolve the problem."), False),
        (FinishedProgram(127, "No such file or directory"), False),
    ],
)  # fmt: skip
def test_which_failures_of_sbatch_say_nothing(done: FinishedProgram, may: bool) -> None:
    assert may_have_job(done) is may


def test_a_site_with_small_nodes_is_asked_for_less(cluster: Callable[[str], Folders], tmp_path: Path) -> None:
    """Only the default: what was asked for by hand is refused."""
    folders = cluster("")
    (job,) = submit(plan(TWO[:1], [Partition("small")], Resources(), folders), Submitted(())).jobs
    assert job.job == "42" and not any("cpus" in word for word in job.argv)
    (job,) = submit(plan(TWO[:1], [Partition("small")], Resources(cpus=64), folders), Submitted(())).jobs
    assert job.job is None and "node configuration" in (job.refused or "")


@pytest.mark.parametrize(
    ("resources", "target", "cpus"),
    [
        (Resources(), TWO[0], ["--cpus-per-task=8"]),
        (Resources(), case(), []),
        (Resources(cpus=4, memory="32G"), case(), ["--cpus-per-task=4"]),
        (Resources(more=("--cpus-per-gpu=6",)), TWO[0], ["--cpus-per-gpu=6"]),
        (Resources(more=("-c12",)), TWO[0], ["-c12"]),
    ],
)
def test_the_cpus_that_a_job_asks_for(resources: Resources, target: SmokeCase, cpus: list[str]) -> None:
    made = plan((target,), [Partition(None)], resources)
    argv = made.submission(made.jobs[0]).argv
    assert [word for word in argv if word.startswith(("--cpus", "-c1"))] == cpus
    assert ("--mem=32G" in argv) == (resources.memory is not None)
