"""What Slurm says of a job, as its programs say it."""

from __future__ import annotations

import pytest
from slurm_answers import GONE, Answers, asking

from envspec.prove.smoke.run.jobs import TaskState, Unreachable, ask_states, read_sacct, read_scontrol, read_squeue
from envspec.prove.smoke.run.process import FinishedProgram


def test_reading_squeue() -> None:
    text = "12_0|RUNNING|n1|None\n12_1|PENDING||Resources\n13|COMPLETED|n2|None\n12_[2-5]|PENDING||Priority\njunk\n"
    assert read_squeue(text) == {
        "12_0": TaskState("RUNNING", "n1"),
        "12_1": TaskState("PENDING", "", "Resources"),
        "13": TaskState("COMPLETED", "n2"),
    }


def test_reading_sacct() -> None:
    text = "12_0|CANCELLED by 1000|n1\n12_1|TIMEOUT|None assigned\n12_[2-3]|PENDING|\n13.batch|FAILED|n1\n"
    assert read_sacct(text) == {"12_0": TaskState("CANCELLED", "n1"), "12_1": TaskState("TIMEOUT")}


def test_reading_scontrol() -> None:
    text = (
        "JobId=13 ArrayJobId=12 ArrayTaskId=1 JobName=x JobState=NODE_FAIL Reason=None NodeList=n[1-2] BatchHost=n1\n"
        "JobId=14 JobName=JobState=FAKE JobState=FAILED NodeList=(null)\n"
    )
    assert read_scontrol(text) == {"12_1": TaskState("NODE_FAIL", "n[1-2]"), "14": TaskState("FAILED")}


NO_ACCOUNTS = FinishedProgram(1, "Slurm accounting storage is disabled")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({"squeue": FinishedProgram(0, "5|RUNNING|n1|None\n")}, {"5": TaskState("RUNNING", "n1")}),
        ({"squeue": GONE, "sacct": FinishedProgram(0, "5|FAILED|n1\n")}, {"5": TaskState("FAILED", "n1")}),
        (
            {
                "squeue": GONE,
                "sacct": NO_ACCOUNTS,
                "scontrol": FinishedProgram(0, "JobId=5 JobState=TIMEOUT NodeList=n1\n"),
            },
            {"5": TaskState("TIMEOUT", "n1")},
        ),
        ({"squeue": GONE, "scontrol": GONE}, {}),
        ({"squeue": GONE}, {}),
    ],
)
def test_who_knows_of_a_job(answers: Answers, found: dict[str, TaskState]) -> None:
    assert ask_states(["5"], asking(answers)) == found


@pytest.mark.parametrize(
    "answers",
    [
        {"squeue": FinishedProgram(1, "Unable to contact slurm controller (connect failure)")},
        {"squeue": GONE, "scontrol": FinishedProgram(1, "Unable to contact slurm controller (connect failure)")},
    ],
)
def test_a_controller_that_is_away_says_nothing_of_jobs(answers: Answers) -> None:
    with pytest.raises(Unreachable):
        ask_states(["5"], asking(answers))
