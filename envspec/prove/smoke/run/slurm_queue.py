"""The states of Slurm jobs: from squeue for waiting and running jobs, from sacct or scontrol for ended ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from envspec.prove.smoke.run.process import FinishedProgram

Ask = Callable[[Sequence[str]], FinishedProgram]
"""Runs a short program."""

ACTIVE = frozenset(
    {
        "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
        "RESIZING", "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT", "STOPPED", "RESV_DEL_HOLD",
    }
)  # fmt: skip
"""States of a job that isn't over (squeue(1), JOB STATE CODES)."""

ENDINGS = {
    "CANCELLED": "the job was cancelled",
    "TIMEOUT": "the job reached its time limit",
    "NODE_FAIL": "a node of the job failed",
    "OUT_OF_MEMORY": "the job ran out of memory",
    "PREEMPTED": "the job was preempted",
    "BOOT_FAIL": "the job's node didn't boot",
    "DEADLINE": "the job didn't end before its deadline",
    "FAILED": "the job failed",
    "COMPLETED": "the job ended",
}
OF_ITS_OWN = frozenset({"COMPLETED", "FAILED"})
"""End states that add nothing to the job's exit status."""


_LOST = ("timed out", "unable to contact", "communication", "connection re", "zero bytes", "unexpected message")
"""Words in a Slurm program's errors for a lost answer (slurm_strerror)."""


@dataclass(frozen=True)
class TaskState:
    """A task's state by Slurm's name ("RUNNING"), its nodes, and why it waits, if Slurm gives a reason."""

    name: str
    nodes: str = ""
    why: str = ""

    @property
    def is_over(self) -> bool:
        return self.name not in ACTIVE


class Unreachable(Exception):
    """Slurm doesn't answer now, so the jobs' states are unknown. It may answer later."""


def ask_states(tasks: Sequence[str], ask: Ask) -> dict[str, TaskState]:
    """Look up the states of the tasks that Slurm knows; a task is `<job>_<index>`, or `<job>` without an array.

    Raises Unreachable.
    """
    wanted = set(tasks)
    if not wanted:
        return {}
    found = _squeue(sorted({_job_of(task) for task in wanted}, key=int), ask)
    for job in sorted({_job_of(task) for task in wanted - set(found)}, key=int):
        found = {**_ended(job, ask), **found}
    return {task: state for task, state in found.items() if task in wanted}


def find_job(name: str, ask: Ask) -> str | None:
    """Find the number of the job (or array) of this name, None where Slurm has none. Raises Unreachable."""
    done = ask(["squeue", "--noheader", "--states=all", "--format=%A|%F", f"--name={name}"])
    if done.status:
        raise Unreachable(done.said.strip() or f"squeue ended with status {done.status}")
    # %F is the number of the whole array
    numbers = (line.rpartition("|")[2].strip() for line in done.said.splitlines())
    return next((number for number in numbers if number.isdecimal()), None)


def may_have_taken(done: FinishedProgram) -> bool:
    """Say whether an sbatch that gave no number may have submitted its job all the same: it was ended, or lost Slurm's
    answer.
    """
    return done.status <= 0 or done.status == 124 or any(words in done.said.lower() for words in _LOST)


def _squeue(jobs: Sequence[str], ask: Ask) -> dict[str, TaskState]:
    argv = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%N|%r", f"--jobs={','.join(jobs)}"]
    done = ask(argv)
    if done.status == 0:
        return read_squeue(done.said)
    if "Invalid job id" in done.said:
        # one alone that it has forgotten; of several it leaves out those
        return {}
    raise Unreachable(done.said.strip() or f"squeue ended with status {done.status}")


def _ended(job: str, ask: Ask) -> dict[str, TaskState]:
    """Look up ended jobs: sacct keeps them longest, where a site has accounts; scontrol for MinJobAge seconds
    (slurm.conf).
    """
    done = ask(
        ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State,NodeList", f"--jobs={job}"]
    )
    found = read_sacct(done.said) if done.status == 0 else {}
    if found:
        return found
    done = ask(["scontrol", "--oneliner", "show", "job", job])
    if done.status == 0:
        return read_scontrol(done.said)
    if done.status == 127 or "Invalid job id" in done.said:
        return {}
    raise Unreachable(done.said.strip() or f"scontrol ended with status {done.status}")


def read_squeue(text: str) -> dict[str, TaskState]:
    """Read lines of `%i|%T|%N|%r`."""
    found = {}
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) == 4 and _is_task(fields[0]):
            found[fields[0]] = TaskState(fields[1], fields[2], "" if fields[3] == "None" else fields[3])
    return found


def read_sacct(text: str) -> dict[str, TaskState]:
    """Read lines of `JobID|State|NodeList`; a state may have more words: `CANCELLED by 1000`."""
    found = {}
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) == 3 and _is_task(fields[0]) and fields[1].strip():
            nodes = "" if fields[2] == "None assigned" else fields[2]
            found[fields[0]] = TaskState(fields[1].split()[0], nodes)
    return found


def read_scontrol(text: str) -> dict[str, TaskState]:
    """Read lines of `scontrol --oneliner show job`."""
    found = {}
    for line in text.splitlines():
        fields: Mapping[str, str] = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line))
        array, index = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
        task = f"{array}_{index}" if array and index else fields.get("JobId", "")
        state, nodes = fields.get("JobState"), fields.get("NodeList", "")
        if state and _is_task(task):
            found[task] = TaskState(state, "" if nodes == "(null)" else nodes)
    return found


def _is_task(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,18}(_[0-9]{1,18})?", text) is not None


def _job_of(task: str) -> str:
    return task.partition("_")[0]
