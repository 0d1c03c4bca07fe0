"""Submission to Slurm, waiting, and collecting. All state is on disk: any process can continue another's work."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from envspec.base.atomic import write_file
from envspec.base.documents import decode, decode_format
from envspec.base.errors import EnvspecError, InputError, Place, StorageError
from envspec.base.open_folder import locate
from envspec.base.plain_files import read_plain
from envspec.export.carried import check_digest
from envspec.prove.smoke.report.read import load_report
from envspec.prove.smoke.report.result import Run, SmokeReport
from envspec.prove.smoke.run.case import REPORT, CheckOptions, Command, Files, Folders, Runner, SmokeCase, Step
from envspec.prove.smoke.run.foreground import LOG, OnText, finished_run, prepare
from envspec.prove.smoke.run.process import FinishedProgram, ask_program, last_lines, run_step, tail
from envspec.prove.smoke.run.slurm import DONE, JOBS, Job, Resources, asking_for, outputs, script, submission

# The record of submitted jobs in the folder of results, with which any later envspec can take over.


STATE = "state.json"
FORMAT = 1


class SubmittedTask(Struct, frozen=True):
    """One case on one partition. `outputs` are the folders of its reports, below the results."""

    spec: str
    target: str
    partition: str | None
    outputs: tuple[str, ...]


class SubmittedJob(Struct, frozen=True):
    """One sbatch call. `job` is Slurm's number, None until sbatch has printed it; until then `name` finds the job in
    the queue. `refused` is sbatch's output when it refused the job, `unsure` when it may have accepted the job.
    """

    name: str
    partition: str | None
    argv: tuple[str, ...]
    tasks: tuple[SubmittedTask, ...]
    job: Annotated[str, Meta(pattern=r"^[0-9]{1,18}\Z")] | None = None
    refused: str | None = None
    unsure: str | None = None

    def task(self, index: int) -> str | None:
        """Slurm's name of a task, None while the job's number is unknown."""
        if self.job is None:
            return None
        return f"{self.job}_{index}" if len(self.tasks) > 1 else self.job

    def log(self, index: int) -> str | None:
        """Slurm's own log of a task, below the results."""
        task = self.task(index)
        return f"jobs/{task}.log" if task else None


class Submitted(Struct, frozen=True):
    """All jobs of one command. `failed` are cases whose environment couldn't be made: (spec, target, reason, log).
    `check` is the digest of the check that all of them carry.
    """

    jobs: tuple[SubmittedJob, ...]
    failed: tuple[tuple[str, str, str, str | None], ...] = ()
    skipped: tuple[tuple[str, str, str], ...] = ()
    check: str | None = None

    def with_job(self, index: int, job: SubmittedJob) -> Submitted:
        return replace(self, jobs=(*self.jobs[:index], job, *self.jobs[index + 1 :]))


def write_submission(results: Path, submitted: Submitted) -> None:
    """Write the record. Raises StorageError."""
    path = results / STATE
    try:
        write_file(path, json.dumps({"format": FORMAT, **to_builtins(submitted)}, indent=1) + "\n")
    except OSError as error:
        raise StorageError(f"can't be written: {error.strerror}", place=Place(str(path))) from None


def read_submission(results: Path) -> Submitted:
    """Read the record. Raises InputError for a missing or damaged one."""
    path = results / STATE
    try:
        submitted = decode_format(read_plain(path), Submitted, FORMAT, Place(str(path)))
    except OSError as error:
        hint = "give --attach a folder that `envspec smoke --runner slurm` made"
        raise InputError(f"{path} can't be read: {error.strerror}", hint=hint) from None
    outputs = (Path(output) for job in submitted.jobs for task in job.tasks for output in task.outputs)
    if any(output.is_absolute() or ".." in output.parts for output in outputs):
        # a record edited by hand must not lead out of the results
        raise InputError("this file wasn't written by envspec", place=Place(str(path)))
    return submitted


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


class TaskState(Struct, frozen=True):
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
    requested = set(tasks)
    if not requested:
        return {}
    states = _squeue(sorted({_job_of(task) for task in requested}, key=int), ask)
    for job in sorted({_job_of(task) for task in requested - set(states)}, key=int):
        states = {**_look_up_ended_jobs(job, ask), **states}
    return {task: state for task, state in states.items() if task in requested}


def find_job(name: str, ask: Ask) -> str | None:
    """Find the number of the job (or array) of this name, None where Slurm has none. Raises Unreachable."""
    squeue = ask(["squeue", "--noheader", "--states=all", "--format=%A|%F", f"--name={name}"])
    if squeue.status:
        raise Unreachable(squeue.output.strip() or f"squeue ended with status {squeue.status}")
    # %A is the number of one task's job, %F that of the whole array
    numbers = (line.rpartition("|")[2].strip() for line in squeue.output.splitlines())
    return next((number for number in numbers if _is_job(number)), None)


def may_have_job(done: FinishedProgram) -> bool:
    """Return whether an sbatch that gave no number may have submitted its job all the same: it was ended, or lost
    Slurm's answer.
    """
    return done.status <= 0 or done.status == 124 or any(words in done.output.lower() for words in _LOST)


def _squeue(jobs: Sequence[str], ask: Ask) -> dict[str, TaskState]:
    """Read the states of the jobs' tasks that squeue still lists. Raises Unreachable."""
    argv = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%N|%r", f"--jobs={','.join(jobs)}"]
    squeue = ask(argv)
    if squeue.status == 0:
        return read_squeue(squeue.output)
    if "Invalid job id" in squeue.output:
        # squeue has forgotten the only job; in a list of several it leaves forgotten jobs out without an error
        return {}
    raise Unreachable(squeue.output.strip() or f"squeue ended with status {squeue.status}")


def _look_up_ended_jobs(job: str, ask: Ask) -> dict[str, TaskState]:
    """Look up ended jobs: sacct keeps them longest, where a site has accounts; scontrol for MinJobAge seconds
    (slurm.conf).
    """
    done = ask(
        ["sacct", "--noheader", "--allocations", "--parsable2", "--format=JobID,State,NodeList", f"--jobs={job}"]
    )
    states = read_sacct(done.output) if done.status == 0 else {}
    if states:
        return states
    done = ask(["scontrol", "--oneliner", "show", "job", job])
    if done.status == 0:
        return read_scontrol(done.output)
    if done.status == 127 or "Invalid job id" in done.output:
        return {}
    raise Unreachable(done.output.strip() or f"scontrol ended with status {done.status}")


def read_squeue(text: str) -> dict[str, TaskState]:
    """Read lines of `%i|%T|%N|%r`."""
    states = {}
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) == 4 and _is_task(fields[0]):
            states[fields[0]] = TaskState(fields[1], fields[2], "" if fields[3] == "None" else fields[3])
    return states


def read_sacct(text: str) -> dict[str, TaskState]:
    """Read lines of `JobID|State|NodeList`; a state may have more words: `CANCELLED by 1000`."""
    states = {}
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) == 3 and _is_task(fields[0]) and fields[1].strip():
            nodes = "" if fields[2] == "None assigned" else fields[2]
            states[fields[0]] = TaskState(fields[1].split()[0], nodes)
    return states


def read_scontrol(text: str) -> dict[str, TaskState]:
    """Read lines of `scontrol --oneliner show job`."""
    states = {}
    for line in text.splitlines():
        fields: Mapping[str, str] = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", line))
        array, index = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
        task = f"{array}_{index}" if array and index else fields.get("JobId", "")
        state, nodes = fields.get("JobState"), fields.get("NodeList", "")
        if state and _is_task(task):
            states[task] = TaskState(state, "" if nodes == "(null)" else nodes)
    return states


def _is_task(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,18}(_[0-9]{1,18})?", text) is not None


def _is_job(text: str) -> bool:
    return _is_task(text) and "_" not in text


def _job_of(task: str) -> str:
    return task.partition("_")[0]


POLLS = (1.0, 15.0)
"""The first and the last interval between questions to Slurm, in seconds. One question covers all jobs."""
GRACE = 90.0
"""The wait for the result of a task that is over or unknown to Slurm, in seconds: NFS shows a new file up to a minute
late (acdirmax in nfs(5)).
"""
_PROMISE = (0, 1, 130)
"""The exit statuses of a check that wrote a report."""
_TOO_LARGE = "Requested node configuration is not available"
"""sbatch's error for a request that no node can meet."""


class JobPlan(Struct, frozen=True):
    """The jobs of one command, and the values for their scripts."""

    cases: tuple[SmokeCase, ...]
    jobs: tuple[Job, ...]
    inner: Runner
    options: CheckOptions
    resources: Resources
    folders: Folders

    def preparation(self, case: SmokeCase) -> tuple[Step, ...]:
        return (self.folders.carry(case), *self.inner.prepare(case))

    def steps(self) -> tuple[Step, ...]:
        """Return all steps in order, for a dry run."""
        steps: list[Step] = [step for case in self.cases for step in self.preparation(case)]
        for job in self.jobs:
            steps += [self.script(job), self.submission(job)]
        return tuple(steps)

    def script(self, job: Job) -> Files:
        text = script(job, self.inner, self.options, self.folders, self.resources.nodes)
        return Files(self.folders.results, ((job.script, text),), f"the batch script of {job.name}", shown=True)

    def submission(self, job: Job) -> Command:
        what = f"{len(job.tasks)} runs" if job.is_array else job.tasks[0].case.title
        where = f" on {job.partition}" if job.partition else ""
        return Command(submission(job, asking_for(job, self.resources), self.folders.results), f"submit {what}{where}")


def prepare_all(
    plan: JobPlan, on_text: OnText = lambda index, text: None
) -> tuple[JobPlan, tuple[tuple[str, str, str, str | None], ...]]:
    """Make every environment on this machine; give the plan without the cases that failed, and these cases."""
    failed: dict[str, str] = {}
    for index, case in enumerate(plan.cases):
        try:
            reason = prepare(case, plan.preparation(case), plan.folders, _log(plan, case), partial(on_text, index))
        except EnvspecError as error:
            reason = f"{error}; {error.hint}" if error.hint else str(error)
        if reason:
            failed[case.title] = reason
    jobs = []
    for job in plan.jobs:
        tasks = tuple(task for task in job.tasks if task.case.title not in failed)
        if tasks:
            jobs.append(replace(job, tasks=tasks))
    cases = tuple(case for case in plan.cases if case.title not in failed)
    lost = tuple(
        (case.spec, case.target, failed[case.title], str(_log(plan, case)))
        for case in plan.cases
        if case.title in failed
    )
    return replace(plan, cases=cases, jobs=tuple(jobs)), lost


def _log(plan: JobPlan, case: SmokeCase) -> Path:
    return plan.folders.results / JOBS / f"{case.title}.{LOG}"


def submit(plan: JobPlan, submitted: Submitted, on_job: Callable[[str], None] = lambda job: None) -> Submitted:
    """Submit every job to Slurm. The state is on disk before the first job, and after each.

    A refused job is recorded with sbatch's reason, and becomes a run without an answer. Where no node meets a job's
    default request, the job is submitted without it.
    """
    results = plan.folders.results
    jobs = tuple(_submitted_job(job, plan) for job in plan.jobs)
    by = next((check_digest(case.carried) for case in plan.cases), None)
    submitted = replace(submitted, jobs=jobs, check=by)
    write_submission(results, submitted)
    for index, job in enumerate(plan.jobs):
        run_step(plan.script(job), results / JOBS / LOG)
        for task in job.tasks:
            _make(results / task.folder)
        handed = _hand_over(jobs[index])
        plain = submission(job, plan.resources, results)
        if _TOO_LARGE in (handed.refused or "") and plain != handed.argv:
            handed = _hand_over(replace(jobs[index], argv=plain))
        submitted = submitted.with_job(index, handed)
        if handed.job is not None:
            on_job(handed.job)
        write_submission(results, submitted)
    return submitted


def _hand_over(job: SubmittedJob) -> SubmittedJob:
    done = ask_program(job.argv, seconds=120)
    number = done.output.strip().splitlines()[-1].partition(";")[0] if done.output.strip() else ""
    if not done.status and _is_job(number):
        return replace(job, job=number)
    with suppress(Unreachable):
        # it may have taken the job, and its answer was lost
        if known := find_job(job.name, ask_program):
            return replace(job, job=known)
    answer = f"(status {done.status})\n{last_lines(done.output, 4)}"
    if may_have_job(done):
        return replace(job, unsure=f"sbatch gave no answer {answer}")
    # one partition that doesn't exist is no reason to leave the others alone
    return replace(job, refused=f"sbatch refused the job {answer}")


def _submitted_job(job: Job, plan: JobPlan) -> SubmittedJob:
    tasks = tuple(
        SubmittedTask(task.case.spec, task.case.target, task.partition, outputs(task, plan.resources.nodes))
        for task in job.tasks
    )
    return SubmittedJob(job.name, job.partition, plan.submission(job).argv, tasks)


def _make(folder: Path) -> None:
    try:
        locate(folder).open(make=True).close()
    except OSError as error:
        raise StorageError(f"{folder} can't be made: {error.strerror}") from None


def find_lost_jobs(submitted: Submitted, asking: Ask = ask_program) -> Submitted:
    """Find jobs without a recorded number by their name: sbatch's answer was lost, or the submitting process died.
    Raises Unreachable.
    """
    for index, job in enumerate(submitted.jobs):
        if job.job is None and job.refused is None and (number := find_job(job.name, asking)):
            submitted = submitted.with_job(index, replace(job, job=number))
    return submitted


class Expected(Struct, frozen=True):
    """One expected report: of a task, or of one of its nodes. `index` counts all reports of a submission; `by` is the
    digest of the check that was carried there.
    """

    index: int
    job: SubmittedJob
    at: int
    task: SubmittedTask
    output: str
    by: str | None = None

    @property
    def slurm_name(self) -> str | None:
        return self.job.task(self.at)


def expected_reports(submitted: Submitted) -> tuple[Expected, ...]:
    reports: list[Expected] = []
    for job in submitted.jobs:
        for at, task in enumerate(job.tasks):
            reports += [
                Expected(len(reports) + n, job, at, task, output, submitted.check)
                for n, output in enumerate(task.outputs)
            ]
    return tuple(reports)


def wait(
    submitted: Submitted,
    results: Path,
    on_text: OnText = lambda index, text: None,
    on_end: Callable[[int, Run], None] = lambda index, run: None,
    sleep: Callable[[float], None] = time.sleep,
    asking: Ask = ask_program,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Run, ...]:
    """Wait until every task is over, and give the runs in the order of the submission. Raises StorageError."""
    waiting = {report.index: report for report in expected_reports(submitted)}
    over_since: dict[int, float] = {}
    runs: dict[int, Run] = {}
    pause, longest = POLLS
    while True:
        states: Mapping[str, TaskState] | None
        try:
            renewed = find_lost_jobs(submitted, asking)
            if renewed != submitted:
                write_submission(results, renewed)
                submitted, waiting = (
                    renewed,
                    {report.index: report for report in expected_reports(renewed) if report.index in waiting},
                )
            states = ask_states([name for report in waiting.values() if (name := report.slurm_name)], asking)
        except Unreachable as problem:
            states = None
            for index in waiting:
                on_text(index, f"Slurm doesn't answer: {problem}")
        now = clock()
        for index, report in tuple(waiting.items()):
            state = states.get(report.slurm_name or "") if states is not None else None
            last = False
            if state is not None and not state.is_over:
                # it was put back into the queue
                over_since.pop(index, None)
            elif states is not None:
                # what had no node leaves no file
                never_ran = state is not None and not state.nodes
                last = never_ran or now - over_since.setdefault(index, now) >= GRACE
            run = collect(report, results, state, last=last)
            if run is not None:
                runs[index] = run
                del waiting[index]
                on_end(index, run)
            elif states is not None:
                on_text(index, _words(state))
        if not waiting:
            return tuple(runs[index] for index in sorted(runs))
        sleep(pause)
        pause = min(pause * 1.5, longest)


def collect(expected: Expected, results: Path, state: TaskState | None, *, last: bool) -> Run | None:
    """Make the run of a task, None while there is none: from `done.json` and the report, or, at `last`, from Slurm's
    state. A run that didn't end by itself is no answer, but has the report that it left.
    """
    folder = results / expected.output
    if state is None or state.is_over:
        _read_anew(folder)
    done = _read_end(folder / DONE)
    where = _where(expected, done, state)
    name = expected.task.spec, expected.task.target, "slurm"
    slurm_log = results / log if (log := expected.job.log(expected.at)) else None
    log_tail = tail(slurm_log) if slurm_log else ""
    log_path = str(slurm_log) if slurm_log else None
    over = ENDINGS.get(state.name, "the job ended") + f" ({state.name})" if state and state.is_over else None
    if done is not None:
        status = done.status
        run = finished_run(*name, where, FinishedProgram(status, log_tail), folder / REPORT, log_path, expected.by)
        if run.status != "error":
            return run
        if not last and status in _PROMISE and not (folder / REPORT).is_file():
            return None
        if status in (0, 1):
            return run
        if not last and over is None:
            # Slurm may say what ended it
            return None
        reason = over if over and state and state.name not in OF_ITS_OWN else (run.reason or "").partition("\n")[0]
    elif expected.job.refused is not None:
        reason = expected.job.refused
    elif not last:
        return None
    elif expected.slurm_name is None:
        reason = f"Slurm has no job {expected.job.name}: the job was never submitted, or ended long ago"
        reason += f"\n{expected.job.unsure}" if expected.job.unsure else ""
    elif state is None:
        reason = f"Slurm doesn't know job {expected.slurm_name} any more, and the job left no result"
    else:
        reason = f"{over}, and left no result"
    left = _read_partial_report(folder / REPORT, expected.task)
    if left:
        reason += f"; its report: {left.headline}"
    if words := last_lines(log_tail):
        reason += f"\n{words}"
    return Run(*name, "error", where, reason, left, log_path)


def _read_anew(folder: Path) -> None:
    """List a folder and its parent, so that NFS reads the names from its server instead of its cache."""
    for path in (folder.parent, folder):
        with suppress(OSError):
            os.listdir(path)


def _read_partial_report(path: Path, task: SubmittedTask) -> SmokeReport | None:
    """Read the report of a run that didn't end by itself."""
    try:
        report = load_report(path)
    except (InputError, StorageError):
        return None
    return report if (report.spec, report.target) == (task.spec, task.target) else None


class _Done(Struct, frozen=True):
    status: int
    node: str = ""


def _read_end(path: Path) -> _Done | None:
    try:
        return decode(read_plain(path), _Done)
    except (OSError, ValueError):
        return None


def _where(expected: Expected, done: _Done | None, state: TaskState | None) -> str | None:
    """Name a run's place: `node/partition`, as far as known; `4 nodes/partition` for a run across all of them."""
    count = len(expected.task.outputs) - 1
    if count and expected.output == expected.task.outputs[-1]:
        node = f"across {count} nodes"
    else:
        node = done.node if done else state.nodes if state else ""
    return "/".join(word for word in (node, expected.task.partition) if word) or None


def _words(state: TaskState | None) -> str:
    if state is None:
        return "unknown to Slurm"
    name = state.name.lower().replace("_", " ")
    why = f" ({state.why})" if state.why and state.name == "PENDING" else ""
    return f"{name}{f' on {state.nodes}' if state.nodes else ''}{why}"


def titles(submitted: Submitted) -> Iterator[str]:
    """Name each expected report, in order."""
    for expected in expected_reports(submitted):
        many = len(expected.task.outputs) > 1
        yield f"{expected.task.spec} × {expected.task.target}" + (f" {Path(expected.output).name}" if many else "")
