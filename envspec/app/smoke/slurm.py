"""Smoke's jobs in Slurm: planned for the partitions, and submitted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

from envspec.app.observer import observer, say
from envspec.app.outputs import write_text
from envspec.app.smoke.cases import Skipped
from envspec.app.smoke.request import SmokeRequest
from envspec.app.smoke.runners import make_runner
from envspec.base.errors import InputError, ToolError
from envspec.base.programs import find_program
from envspec.base.settings import load_settings
from envspec.base.texts import printable
from envspec.export.site_build import constraint
from envspec.prove.smoke.run import slurm
from envspec.prove.smoke.run.case import Folders, SmokeCase
from envspec.prove.smoke.run.jobs import JobPlan, prepare_all, submit
from envspec.prove.smoke.run.submitted import STATE, Submitted


def plan_jobs(
    asked: SmokeRequest, cases: tuple[SmokeCase, ...], skipped: tuple[Skipped, ...], folders: Folders
) -> tuple[JobPlan, tuple[Skipped, ...]]:
    """Give the jobs of the cases that a partition takes, and the skipped cases. Raises InputError."""
    if (folders.results / STATE).exists():
        raise InputError(
            f"{folders.results} already holds submitted jobs",
            hint=f"run envspec smoke --attach {folders.results}, or choose another folder with -o",
        )
    # the folder is used once, so its name makes the jobs' names unique
    token = hashlib.sha256(str(folders.results).encode()).hexdigest()[:8]
    partitions = [slurm.partition_of(text) for text in asked.partitions] or [slurm.Partition(None)]
    homeless = [case for case in cases if not any(place.takes(case.target) for place in partitions)]
    if homeless and len(homeless) == len(cases):
        raise InputError(
            f"no partition takes {', '.join(case.title for case in homeless)}",
            hint="check the patterns of --partition NAME=TARGET,…",
        )
    cases = tuple(case for case in cases if case not in homeless)
    skipped = (*skipped, *((case.spec, case.target, "no --partition takes it") for case in homeless))
    jobs = slurm.plan_jobs(cases, partitions, token, _asking())
    inner = make_runner(asked.within, asked, folders)
    return JobPlan(cases, jobs, inner, asked.checks, asked.resources, folders), skipped


def _asking() -> Callable[[SmokeCase], tuple[str, ...]]:
    """Give what a case asks of sbatch besides the options: what its spec says, else the site, and its GPUs' nodes."""
    site = load_settings().site.slurm

    def words(case: SmokeCase) -> tuple[str, ...]:
        asked = case.slurm
        of_lock = constraint(site, *case.runs_on) if case.wants_gpu else None
        given = {
            "account": asked.account or site.account,
            "partition": asked.partition or site.partition,
            "constraint": asked.constraint or of_lock,
        }
        return tuple(f"--{name}={value}" for name, value in given.items() if value)

    return words


def submit_jobs(plan: JobPlan, skipped: tuple[Skipped, ...], *, no_wait: bool) -> Submitted:
    """Make the environments and submit the jobs. With `no_wait`, refusals are told: there will be no report of them.

    Raises ToolError, StorageError.
    """
    results = plan.folders.results
    if find_program("sbatch", os.environ) is None:
        raise ToolError("sbatch isn't in PATH", hint="submit from a login node of the cluster")
    try:
        with observer().runs([case.name for case in plan.cases]) as display:
            plan, failed = prepare_all(plan, display.update)
        submitted = submit(plan, Submitted((), failed, skipped), lambda job: _remember(job, plan.folders))
    except KeyboardInterrupt:
        begun = f"some jobs may already be running, and envspec smoke --attach {results} waits for them"
        raise KeyboardInterrupt(begun if (results / STATE).exists() else "no job was submitted") from None
    numbers = " ".join(job.job for job in submitted.jobs if job.job)
    if numbers:
        say(f"submitted: {numbers}; reports go to {results}")
    for job in submitted.jobs:
        if problem := job.unsure or (job.refused if no_wait else None):
            say(f"{job.name}: {printable(problem)}")
    return submitted


def _remember(job: str, folders: Folders) -> None:
    """Record where a job's results go, for `--attach JOB`."""
    write_text(folders.cache / "jobs" / job, f"{folders.results}\n")
