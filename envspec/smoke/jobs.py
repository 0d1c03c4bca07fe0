"""Submitting to Slurm, waiting, and collecting. All is on disk: any process goes on where another stopped."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from envspec.errors import EnvspecError, StorageError
from envspec.smoke.case import REPORT, Case, Folders, Options
from envspec.smoke.command import Command, Files, Step
from envspec.smoke.perform import LOG, judged, prepare
from envspec.smoke.process import Ended, ask, do, last_lines, tail
from envspec.smoke.result import Run
from envspec.smoke.runner import Runner
from envspec.smoke.slurm import DONE, JOBS, Job, Resources, outputs, script, submission
from envspec.smoke.slurm_queue import TOLD, Ask, State, Unreachable, ask_states
from envspec.smoke.submitted import Submitted, SubmittedJob, SubmittedTask, write_submitted

POLLS = (1.0, 15.0)
"""Slurm is asked this often, in seconds: at first, and at last. One question for all jobs."""
GRACE = 3
"""So often may a task be over, or unknown to Slurm, with no result yet: shared file systems show files late."""

Told = Callable[[int, str], None]


@dataclass(frozen=True)
class Plan:
    """The jobs of one command, and all that their scripts hold."""

    cases: tuple[Case, ...]
    jobs: tuple[Job, ...]
    inner: Runner
    options: Options
    resources: Resources
    folders: Folders

    def preparation(self, case: Case) -> tuple[Step, ...]:
        return (self.folders.carry(case), *self.inner.prepare(case))

    def steps(self) -> tuple[Step, ...]:
        """Everything, in order, for a dry run."""
        found: list[Step] = [step for case in self.cases for step in self.preparation(case)]
        for job in self.jobs:
            found += [self.script(job), self.submission(job)]
        return tuple(found)

    def script(self, job: Job) -> Files:
        text = script(job, self.inner, self.options, self.folders, self.resources.nodes)
        return Files(self.folders.results, ((job.script, text),), f"the batch script of {job.name}", shown=True)

    def submission(self, job: Job) -> Command:
        what = f"{len(job.tasks)} runs" if job.is_array else job.tasks[0].case.title
        where = f" on {job.partition}" if job.partition else ""
        return Command(submission(job, self.resources, self.folders.results), f"submit {what}{where}")


def prepare_all(
    plan: Plan, told: Told = lambda index, text: None
) -> tuple[Plan, tuple[tuple[str, str, str, str | None], ...]]:
    """Make every environment, here; gives the plan without the cases whose environment can't be made, and these."""
    failed: dict[str, str] = {}
    for index, case in enumerate(plan.cases):
        try:
            reason = prepare(case, plan.preparation(case), plan.folders, _log(plan, case), partial(told, index))
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


def _log(plan: Plan, case: Case) -> Path:
    return plan.folders.results / JOBS / f"{case.title}.{LOG}"


def submit(plan: Plan, submitted: Submitted, on_job: Callable[[str], None] = lambda job: None) -> Submitted:
    """Hand every job to Slurm. The state is on disk before the first one, and after each.

    What sbatch refuses is written down with its reason, and becomes a run without an answer.
    """
    results = plan.folders.results
    jobs = tuple(_submitted(job, plan) for job in plan.jobs)
    submitted = replace(submitted, jobs=jobs)
    write_submitted(results, submitted)
    for index, job in enumerate(plan.jobs):
        do(plan.script(job), results / JOBS / LOG)
        for task in job.tasks:
            _make(results / task.folder)
        done = ask(jobs[index].argv, seconds=120)
        number = done.said.strip().splitlines()[-1].partition(";")[0] if done.said.strip() else ""
        if done.status or not number.isdigit():
            # one partition that doesn't exist is no reason to leave the others alone
            refused = f"sbatch took no job (status {done.status})\n{last_lines(done.said, 4)}"
            submitted = submitted.with_job(index, None, refused)
        else:
            submitted = submitted.with_job(index, number)
            on_job(number)
        write_submitted(results, submitted)
    return submitted


def _submitted(job: Job, plan: Plan) -> SubmittedJob:
    tasks = tuple(
        SubmittedTask(task.case.spec, task.case.target, task.partition, outputs(task, plan.resources.nodes))
        for task in job.tasks
    )
    return SubmittedJob(job.name, job.partition, plan.submission(job).argv, tasks)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} can't be made: {error.strerror}") from None


def find_lost(submitted: Submitted, asking: Ask = ask) -> Submitted:
    """Look for jobs that were handed over by a process that died before it wrote the number down: by their name."""
    for index, job in enumerate(submitted.jobs):
        if job.job is None and job.refused is None:
            done = asking(["squeue", "--noheader", "--states=all", "--format=%A|%F", f"--name={job.name}"])
            # %F is the number of the whole array
            numbers = [line.rpartition("|")[2].strip() for line in done.said.splitlines()] if done.status == 0 else []
            if numbers and numbers[0].isdigit():
                submitted = submitted.with_job(index, numbers[0])
    return submitted


@dataclass(frozen=True)
class Expected:
    """One report to come: of a task, or of one node of it. `index` counts all of a submission."""

    index: int
    job: SubmittedJob
    at: int
    task: SubmittedTask
    output: str

    @property
    def slurm_name(self) -> str | None:
        return self.job.task(self.at)


def expected(submitted: Submitted) -> tuple[Expected, ...]:
    found: list[Expected] = []
    for job in submitted.jobs:
        for at, task in enumerate(job.tasks):
            found += [Expected(len(found) + n, job, at, task, output) for n, output in enumerate(task.outputs)]
    return tuple(found)


def wait(
    submitted: Submitted,
    results: Path,
    told: Told = lambda index, text: None,
    ended: Callable[[int, Run], None] = lambda index, run: None,
    sleep: Callable[[float], None] = time.sleep,
    asking: Ask = ask,
) -> tuple[Run, ...]:
    """Wait until every task is over, and give the runs in the order of the submission."""
    waiting = {one.index: one for one in expected(submitted)}
    missed = dict.fromkeys(waiting, 0)
    runs: dict[int, Run] = {}
    pause, longest = POLLS
    while True:
        states: Mapping[str, State] | None
        try:
            states = ask_states([name for one in waiting.values() if (name := one.slurm_name)], asking)
        except Unreachable as problem:
            states = None
            for index in waiting:
                told(index, f"Slurm doesn't answer: {problem}")
        for index, one in tuple(waiting.items()):
            state = states.get(one.slurm_name or "") if states is not None else None
            run = collect(one, results, state, last=states is not None and missed[index] >= GRACE)
            if run is not None:
                runs[index] = run
                del waiting[index]
                ended(index, run)
            elif states is not None:
                missed[index] += state is None or state.is_over
                told(index, _words(state))
        if not waiting:
            return tuple(runs[index] for index in sorted(runs))
        sleep(pause)
        pause = min(pause * 1.5, longest)


def collect(one: Expected, results: Path, state: State | None, *, last: bool) -> Run | None:
    """The run of a task, None while there is none: from `done.json`, or, at `last`, from what Slurm says of its end."""
    folder = results / one.output
    done = _done(folder / DONE)
    where = _where(one, done, state)
    name = one.task.spec, one.task.target, "slurm"
    slurm_log = results / log if (log := one.job.log(one.at)) else None
    if done is not None:
        said = tail(slurm_log) if slurm_log else ""
        run = judged(
            *name, where, Ended(int(done["status"]), said), folder / REPORT, str(slurm_log) if slurm_log else None
        )
        # a report may show up later than what was written after it
        return run if last or run.report is not None else None
    if not last and one.job.refused is None:
        return None
    if one.slurm_name is None:
        reason = one.job.refused or "the job was never submitted: envspec was ended before"
    elif state is None:
        reason = f"Slurm doesn't know job {one.slurm_name} any more, and it left no result"
    elif not state.is_over:
        return None
    else:
        reason = f"{TOLD.get(state.name, 'the job ended')} ({state.name}), and left no result"
    said = last_lines(tail(slurm_log)) if slurm_log else ""
    return Run(
        *name, "error", where, reason + (f"\n{said}" if said else ""), None, str(slurm_log) if slurm_log else None
    )


def _done(path: Path) -> dict[str, str | int] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    if isinstance(value, dict) and isinstance(value.get("status"), int):
        return {"status": value["status"], "node": str(value.get("node", ""))}
    return None


def _where(one: Expected, done: Mapping[str, str | int] | None, state: State | None) -> str | None:
    """`node/partition`, as much of it as is known; `4 nodes/partition` for what ran across all of them."""
    count = len(one.task.outputs) - 1
    if count and one.output == one.task.outputs[-1]:
        node = f"across {count} nodes"
    else:
        node = str(done["node"]) if done else state.nodes if state else ""
    return "/".join(word for word in (node, one.task.partition) if word) or None


def _words(state: State | None) -> str:
    if state is None:
        return "unknown to Slurm"
    name = state.name.lower().replace("_", " ")
    why = f" ({state.why})" if state.why and state.name == "PENDING" else ""
    return f"{name}{f' on {state.nodes}' if state.nodes else ''}{why}"


def titles(submitted: Submitted) -> Iterator[str]:
    """What each expected report is called, in order."""
    for one in expected(submitted):
        several = len(one.task.outputs) > 1
        yield f"{one.task.spec} × {one.task.target}" + (f" {Path(one.output).name}" if several else "")
