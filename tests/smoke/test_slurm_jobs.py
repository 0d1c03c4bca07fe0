"""Slurm: scripts and lines of sbatch, what its programs say, and what comes of tasks that end in any way."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from runner_samples import HOSTILE, HOSTILE_CASE, PLAIN, case
from smoke_golden import golden
from smoke_samples import report

from envspec.errors import InputError
from envspec.smoke.apptainer import Apptainer
from envspec.smoke.as_json import report_json
from envspec.smoke.case import Case, Folders, Options
from envspec.smoke.command import dry
from envspec.smoke.jobs import GRACE, Plan, find_lost, submit, wait
from envspec.smoke.local import Local
from envspec.smoke.process import Ended
from envspec.smoke.result import Run
from envspec.smoke.slurm import LARGEST_ARRAY, Partition, Resources, partition_of, plan_jobs
from envspec.smoke.slurm_queue import State, Unreachable, ask_states, read_sacct, read_scontrol, read_squeue
from envspec.smoke.submitted import Submitted, SubmittedJob, SubmittedTask, read_submitted, write_submitted

SITE = Resources(account="team", time="30", gpus_per_node="8", more=("--constraint=a b;c",))
TWO = (case("cu128-hopper", cuda="12.8"), case("cu128-ampere", cuda="12.8"))


def plan(
    cases: tuple[Case, ...], partitions: Sequence[Partition], resources: Resources, folders: Folders = PLAIN
) -> Plan:
    jobs = plan_jobs(cases, partitions, "0a1b2c3d")
    return Plan(cases, jobs, Local(folders, ("envspec",)), Options(), resources, folders)


PLANS = {
    "one": plan((case(),), [Partition(None)], Resources()),
    "matrix": plan(TWO, [Partition("h100", ("*-hopper",)), Partition("any")], SITE),
    "nodes": plan(TWO[:1], [Partition("h100")], replace(SITE, nodes=2)),
}
PLANS["apptainer"] = replace(PLANS["one"], inner=Apptainer(PLAIN, sif=Path("/images/x.sif")))


@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str) -> None:
    text = dry(PLANS[name].steps()) + "\n"
    assert text == golden(f"slurm-{name}.sh", text)


@pytest.mark.parametrize("nodes", [1, 3])
def test_any_script_is_sound(nodes: int, tmp_path: Path) -> None:
    made = plan((HOSTILE_CASE, case("other")), [Partition("it's;$(id)")], Resources(nodes), HOSTILE)
    text = dict(made.script(made.jobs[0]).texts)["jobs/0.sh"]
    path = tmp_path / "script.sh"
    path.write_text(text)
    subprocess.run(["bash", "-n", str(path)], check=True)
    if shutil.which("shellcheck"):
        told = subprocess.run(
            ["shellcheck", "--severity=warning", str(path)], capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stdout


def test_a_script_runs_its_check_with_hostile_paths(tmp_path: Path) -> None:
    """The batch script under bash, as Slurm would start it: the check is started, and its end written down."""
    folders = Folders(tmp_path / "ca che's $(id)", tmp_path / 're"sults, $HOME; x')
    prefix = folders.prefix(HOSTILE_CASE)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "activate").write_text("ACTIVATED=yes; export ACTIVATED\n")
    python = prefix / "bin" / "python"
    python.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$ACTIVATED" "$PYTHONNOUSERSITE" "${PYTHONPATH-none}" "$@"; exit 3\n'
    )
    python.chmod(0o755)
    made = plan((case("first"), HOSTILE_CASE), [Partition(None)], Resources(), folders)
    script = folders.results / "jobs" / "0.sh"
    script.parent.mkdir(parents=True)
    script.write_text(made.script(made.jobs[0]).texts[0][1])
    env = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1", "PYTHONPATH": "/elsewhere"}
    ran = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False, env=env)
    out = folders.results / made.jobs[0].tasks[1].folder
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.splitlines()[:4] == ["yes", "1", "none", str(folders.carried(HOSTILE_CASE) / "check.py")]
    assert ran.stdout.splitlines()[-1] == str(out / "check.json")
    done = json.loads((out / "done.json").read_text())
    assert (done["status"], done["job"]) == (3, "7")


def test_a_matrix_is_an_array_a_partition() -> None:
    jobs = plan_jobs(TWO, [Partition("a"), Partition("b", ("*-ampere",))], "t")
    assert [(job.partition, len(job.tasks), job.is_array) for job in jobs] == [("a", 2, True), ("b", 1, False)]
    folders = [task.folder for job in jobs for task in job.tasks]
    assert len(set(folders)) == 3


def test_no_array_is_larger_than_slurm_allows() -> None:
    cases = [case(f"t{number}") for number in range(LARGEST_ARRAY + 1)]
    assert [len(job.tasks) for job in plan_jobs(cases, [Partition(None)], "t")] == [LARGEST_ARRAY, 1]


@pytest.mark.parametrize("text", ["", "=x", "a=", "-x", "a\n", "a= , "])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        partition_of(text)


def test_a_partition_takes_what_fits_its_patterns() -> None:
    place = partition_of("a100=*-ampere,cpu")
    assert [place.takes(name) for name in ("cu128-ampere", "cpu", "cu128-hopper")] == [True, True, False]
    assert partition_of("any").takes("whatever")


def test_reading_squeue() -> None:
    text = "12_0|RUNNING|n1|None\n12_1|PENDING||Resources\n13|COMPLETED|n2|None\n12_[2-5]|PENDING||Priority\njunk\n"
    assert read_squeue(text) == {
        "12_0": State("RUNNING", "n1"),
        "12_1": State("PENDING", "", "Resources"),
        "13": State("COMPLETED", "n2"),
    }


def test_reading_sacct() -> None:
    text = "12_0|CANCELLED by 1000|n1\n12_1|TIMEOUT|None assigned\n12_[2-3]|PENDING|\n13.batch|FAILED|n1\n"
    assert read_sacct(text) == {"12_0": State("CANCELLED", "n1"), "12_1": State("TIMEOUT")}


def test_reading_scontrol() -> None:
    text = (
        "JobId=13 ArrayJobId=12 ArrayTaskId=1 JobName=x JobState=NODE_FAIL Reason=None NodeList=n[1-2] BatchHost=n1\n"
        "JobId=14 JobName=JobState=FAKE JobState=FAILED NodeList=(null)\n"
    )
    assert read_scontrol(text) == {"12_1": State("NODE_FAIL", "n[1-2]"), "14": State("FAILED")}


Answers = dict[str, Ended]


def asking(answers: Answers) -> Callable[[Sequence[str]], Ended]:
    return lambda argv: answers.get(argv[0], Ended(127, "not found"))


GONE = Ended(1, "slurm_load_jobs error: Invalid job id specified")
NO_ACCOUNTS = Ended(1, "Slurm accounting storage is disabled")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({"squeue": Ended(0, "5|RUNNING|n1|None\n")}, {"5": State("RUNNING", "n1")}),
        ({"squeue": GONE, "sacct": Ended(0, "5|FAILED|n1\n")}, {"5": State("FAILED", "n1")}),
        (
            {"squeue": GONE, "sacct": NO_ACCOUNTS, "scontrol": Ended(0, "JobId=5 JobState=TIMEOUT NodeList=n1\n")},
            {"5": State("TIMEOUT", "n1")},
        ),
        ({"squeue": GONE, "scontrol": GONE}, {}),
        ({"squeue": GONE}, {}),
    ],
)
def test_who_knows_of_a_job(answers: Answers, found: dict[str, State]) -> None:
    assert ask_states(["5"], asking(answers)) == found


@pytest.mark.parametrize(
    "answers",
    [
        {"squeue": Ended(1, "Unable to contact slurm controller (connect failure)")},
        {"squeue": GONE, "scontrol": Ended(1, "Unable to contact slurm controller (connect failure)")},
    ],
)
def test_a_controller_that_is_away_says_nothing_of_jobs(answers: Answers) -> None:
    with pytest.raises(Unreachable):
        ask_states(["5"], asking(answers))


def submitted(*outputs: str, job: str | None = "5") -> Submitted:
    return Submitted(
        (SubmittedJob("envspec-x-0", "main", ("sbatch",), (SubmittedTask("s", "t", "main", outputs),), job),)
    )


def leave(folder: Path, status: int, text: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        (folder / "check.json").write_text(text)
    (folder / "done.json").write_text(json.dumps({"status": status, "node": "n1", "job": "5"}))


def waited(whole: Submitted, results: Path, answers: Answers) -> tuple[Run, ...]:
    pauses: list[float] = []
    runs = wait(whole, results, sleep=pauses.append, asking=asking(answers))
    assert len(pauses) <= GRACE + 1
    return runs


OURS = replace(report(), spec="s", target="t")


def test_a_report_is_the_run(tmp_path: Path) -> None:
    leave(tmp_path / "a", 0, json.dumps(report_json(OURS)))
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert (run.status, run.where, run.runner) == ("pass", "n1/main", "slurm")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("CANCELLED", "the job was cancelled (CANCELLED)"),
        ("TIMEOUT", "the job ran into its time limit (TIMEOUT)"),
        ("NODE_FAIL", "a node of the job failed (NODE_FAIL)"),
        ("OUT_OF_MEMORY", "the job ran out of memory"),
        ("COMPLETED", "the job ended (COMPLETED), and left no result"),
        ("SOMETHING_NEW", "the job ended (SOMETHING_NEW)"),
    ],
)
def test_an_end_without_a_result_is_an_error_with_the_log(tmp_path: Path, state: str, says: str) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "5.log").write_text("first\nlast words\n")
    (run,) = waited(submitted("a"), tmp_path, {"squeue": Ended(0, f"5|{state}|n1|None\n")})
    assert run.status == "error" and says in (run.reason or "") and (run.reason or "").endswith("last words")
    assert run.log == str(tmp_path / "jobs" / "5.log")


def test_a_job_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert run.status == "error" and "doesn't know job 5" in (run.reason or "")


def test_a_job_that_was_never_submitted_is_an_error(tmp_path: Path) -> None:
    (run,) = waited(submitted("a", job=None), tmp_path, {"squeue": GONE})
    assert run.status == "error" and "never submitted" in (run.reason or "")


@pytest.mark.parametrize(
    ("status", "text", "says"),
    [
        (139, None, "status 139 (SIGSEGV), and left no report"),
        (0, None, "left no report"),
        (0, json.dumps(report_json(OURS))[:200], "the run may have been ended while it wrote"),
        (1, json.dumps(report_json(OURS)), "ended with status 1, and their report says pass"),
        (0, json.dumps(report_json(replace(OURS, target="u"))), "the report is of s × u"),
    ],
)
def test_a_result_that_contradicts_itself_is_no_answer(
    tmp_path: Path, status: int, text: str | None, says: str
) -> None:
    leave(tmp_path / "a", status, text)
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert run.status == "error" and says in (run.reason or "")


def test_every_node_and_all_together_are_runs(tmp_path: Path) -> None:
    for name in ("r/node-0", "r/across"):
        leave(tmp_path / name, 0, json.dumps(report_json(OURS)))
    whole = submitted("r/node-0", "r/node-1", "r/across")
    runs = waited(whole, tmp_path, {"squeue": Ended(0, "5|NODE_FAIL|n1|None\n")})
    assert [run.status for run in runs] == ["pass", "error", "pass"]
    assert [run.where for run in runs] == ["n1/main", "n1/main", "across 2 nodes/main"]


def test_the_state_survives_being_written(tmp_path: Path) -> None:
    whole = replace(submitted("a"), failed=(("s", "u", "why", None),), skipped=(("s", "v", "why"),))
    write_submitted(tmp_path, whole)
    assert read_submitted(tmp_path) == whole


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "jobs": 3}', '{"format": 99}', "[]", "null"])
def test_a_state_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(InputError):
        read_submitted(tmp_path)


def test_a_state_leads_nowhere_else(tmp_path: Path) -> None:
    write_submitted(tmp_path, submitted("../../etc"))
    with pytest.raises(InputError):
        read_submitted(tmp_path)


def test_a_lost_job_is_found_by_its_name() -> None:
    seen: list[Sequence[str]] = []

    def ask(argv: Sequence[str]) -> Ended:
        seen.append(argv)
        return Ended(0, "18|17\n17|17\n")

    assert find_lost(submitted("a", job=None), ask).jobs[0].job == "17"
    assert "--name=envspec-x-0" in seen[0]
    assert find_lost(submitted("a"), ask).jobs[0].job == "5"


def test_a_refused_job_doesnt_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\ncase "$*" in *--partition=bad*) echo no such partition >&2; exit 1;; esac\necho 42\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    folders = Folders(tmp_path / "cache", tmp_path / "results")
    made = plan((case(),), [Partition("bad"), Partition("good")], Resources(), folders)
    whole = submit(made, Submitted(()))
    assert [job.job for job in whole.jobs] == [None, "42"]
    assert "no such partition" in (whole.jobs[0].refused or "")
    assert read_submitted(folders.results) == whole
