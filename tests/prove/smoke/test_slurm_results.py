"""What is known of a job in the end: its report, its state, its log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from slurm_answers import GONE, Answers, Then, waited
from smoke_samples import report

from envspec.base.errors import InputError
from envspec.prove.smoke.report.as_json import report_json
from envspec.prove.smoke.run.jobs import GRACE, find_lost_jobs
from envspec.prove.smoke.run.process import FinishedProgram
from envspec.prove.smoke.run.submitted import Submitted, SubmittedJob, SubmittedTask, read_submission, write_submission


def submitted(*outputs: str, job: str | None = "5") -> Submitted:
    return Submitted(
        (SubmittedJob("envspec-x-0", "main", ("sbatch",), (SubmittedTask("s", "t", "main", outputs),), job),)
    )


def leave(folder: Path, status: int, text: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        (folder / "check.json").write_text(text)
    (folder / "done.json").write_text(json.dumps({"status": status, "node": "n1", "job": "5"}))


OURS = replace(report(), spec="s", target="t")


PAUSE: tuple[Then, ...] = (lambda: None,)


def passing(results: Path) -> Then:
    """A task that leaves a report which passed."""
    return lambda: leave(results / "a", 0, json.dumps(report_json(OURS)))


def says(answers: Answers, squeue: str, **more: FinishedProgram) -> Then:
    """Slurm that says something else from then on."""
    return lambda: answers.update({"squeue": FinishedProgram(0, squeue), **more})


def test_a_report_is_the_run(tmp_path: Path) -> None:
    leave(tmp_path / "a", 0, json.dumps(report_json(OURS)))
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert (run.status, run.where, run.runner) == ("pass", "n1/main", "slurm")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("CANCELLED", "the job was cancelled (CANCELLED)"),
        ("TIMEOUT", "the job reached its time limit (TIMEOUT)"),
        ("NODE_FAIL", "a node of the job failed (NODE_FAIL)"),
        ("OUT_OF_MEMORY", "the job ran out of memory"),
        ("COMPLETED", "the job ended (COMPLETED), and left no result"),
        ("SOMETHING_NEW", "the job ended (SOMETHING_NEW)"),
    ],
)
def test_an_end_without_a_result_is_an_error_with_the_log(tmp_path: Path, state: str, says: str) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "5.log").write_text("first\nlast words\n")
    (run,) = waited(submitted("a"), tmp_path, {"squeue": FinishedProgram(0, f"5|{state}|n1|None\n")})
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
        (0, json.dumps(report_json(OURS))[:200], "the run may have ended while writing"),
        (1, json.dumps(report_json(OURS)), "ended with status 1, and their report says pass"),
        (0, json.dumps(report_json(replace(OURS, target="u"))), "the report is for s × u"),
    ],
)
def test_a_result_that_contradicts_itself_is_no_answer(
    tmp_path: Path, status: int, text: str | None, says: str
) -> None:
    leave(tmp_path / "a", status, text)
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert run.status == "error" and says in (run.reason or "")


def test_every_node_and_all_together_are_runs(tmp_path: Path) -> None:
    for name in ("r/node-0", "r/multi-node"):
        leave(tmp_path / name, 0, json.dumps(report_json(OURS)))
    whole = submitted("r/node-0", "r/node-1", "r/multi-node")
    runs = waited(whole, tmp_path, {"squeue": FinishedProgram(0, "5|NODE_FAIL|n1|None\n")})
    assert [run.status for run in runs] == ["pass", "error", "pass"]
    assert [run.where for run in runs] == ["n1/main", "n1/main", "across 2 nodes/main"]


def test_the_state_survives_being_written(tmp_path: Path) -> None:
    whole = replace(submitted("a"), failed=(("s", "u", "why", None),), skipped=(("s", "v", "why"),))
    write_submission(tmp_path, whole)
    assert read_submission(tmp_path) == whole


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "jobs": 3}', '{"format": 99}', "[]", "null"])
def test_a_state_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(InputError):
        read_submission(tmp_path)


def test_a_state_leads_nowhere_else(tmp_path: Path) -> None:
    write_submission(tmp_path, submitted("../../etc"))
    with pytest.raises(InputError):
        read_submission(tmp_path)


def test_a_job_whose_number_was_lost_is_found_while_waiting(tmp_path: Path) -> None:
    leave(tmp_path / "a", 139, None)
    (run,) = waited(
        submitted("a", job=None),
        tmp_path,
        {"--name": FinishedProgram(0, "5|5\n"), "squeue": FinishedProgram(0, "5|CANCELLED|n1|None\n")},
    )
    assert "cancelled" in (run.reason or "") and read_submission(tmp_path).jobs[0].job == "5"


def test_a_controller_that_is_away_says_nothing_of_lost_jobs(tmp_path: Path) -> None:
    away = FinishedProgram(1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    answers = {"--name": away, "squeue": away}
    back = says(answers, "5|RUNNING|n1|None\n", **{"--name": FinishedProgram(0, "5|5\n")})
    (run,) = waited(submitted("a", job=None), tmp_path, answers, *PAUSE * 50, back, passing(tmp_path), most=3600)
    assert run.status == "pass"


def test_a_result_that_shows_up_late_counts(tmp_path: Path) -> None:
    """NFS shows a new name up to a minute late."""
    answers = {"squeue": FinishedProgram(0, "5|COMPLETED|n1|None\n")}
    (run,) = waited(submitted("a"), tmp_path, answers, *PAUSE * 8, passing(tmp_path))
    assert run.status == "pass"


def test_the_grace_begins_anew_when_the_job_does(tmp_path: Path) -> None:
    answers = {"squeue": FinishedProgram(0, "5|NODE_FAIL|n1|None\n")}
    again, gone = says(answers, "5|PENDING||Resources\n"), says(answers, "5|NODE_FAIL|n2|None\n")
    late = (*PAUSE * 8, again, gone, *PAUSE * 3, passing(tmp_path))
    (run,) = waited(submitted("a"), tmp_path, answers, *late, most=2 * GRACE)
    assert run.status == "pass"


def test_a_job_that_never_had_a_node_left_nothing(tmp_path: Path) -> None:
    (run,) = waited(submitted("a"), tmp_path, {"squeue": FinishedProgram(0, "5|CANCELLED||None\n")}, most=0)
    assert (run.reason or "").startswith("the job was cancelled (CANCELLED)")


CUT = report_json(replace(OURS, complete=False))


@pytest.mark.parametrize("written", [True, False], ids=["done", "killed"])
def test_a_job_that_was_ended_shows_its_report(tmp_path: Path, written: bool) -> None:
    leave(tmp_path / "a", 130, json.dumps(CUT))
    if not written:
        (tmp_path / "a" / "done.json").unlink()
    (run,) = waited(
        submitted("a"), tmp_path, {"squeue": FinishedProgram(0, "5|TIMEOUT|n1|None\n")}, most=0 if written else 200
    )
    assert run.status == "error" and run.report is not None
    assert run.headline.startswith("no answer: the job reached its time limit (TIMEOUT)")
    assert "its report: interrupted: " in (run.reason or "")


def test_slurm_is_asked_why_a_job_was_ended(tmp_path: Path) -> None:
    leave(tmp_path / "a", 130, json.dumps(CUT))
    answers = {"squeue": FinishedProgram(0, "5|COMPLETING|n1|None\n")}
    (run,) = waited(submitted("a"), tmp_path, answers, *PAUSE, says(answers, "5|PREEMPTED|n1|None\n"))
    assert "the job was preempted (PREEMPTED)" in (run.reason or "")


def test_a_lost_job_is_found_by_its_name() -> None:
    seen: list[Sequence[str]] = []

    def ask(argv: Sequence[str]) -> FinishedProgram:
        seen.append(argv)
        return FinishedProgram(0, "18|17\n17|17\n")

    assert find_lost_jobs(submitted("a", job=None), ask).jobs[0].job == "17"
    assert "--name=envspec-x-0" in seen[0]
    assert find_lost_jobs(submitted("a"), ask).jobs[0].job == "5"
