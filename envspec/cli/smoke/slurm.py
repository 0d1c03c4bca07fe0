"""`envspec smoke --runner slurm`: submit, wait, and `--attach` to what was submitted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app.outputs import write_text
from envspec.app.smoke.cases import Skipped
from envspec.app.smoke.runners import make_runner
from envspec.base.errors import InputError, ToolError
from envspec.base.programs import find_program
from envspec.base.texts import printable
from envspec.cli.console import out, say
from envspec.cli.smoke.output import cache_folder, finish, show_steps, skipped_runs
from envspec.cli.smoke.show import progress
from envspec.prove.smoke.report.result import Run
from envspec.prove.smoke.run.submitted import STATE, Submitted, read_submitted

if TYPE_CHECKING:
    from envspec.app.smoke.options import SmokeOptions
    from envspec.prove.smoke.run.case import Folders, SmokeCase
    from envspec.prove.smoke.run.jobs import JobPlan


def submit(options: SmokeOptions, cases: tuple[SmokeCase, ...], skipped: tuple[Skipped, ...], folders: Folders) -> int:
    """Make the environments, submit the jobs and wait, unless the options say otherwise; give the exit code."""
    if (folders.results / STATE).exists():
        raise InputError(
            f"{folders.results} already holds submitted jobs",
            hint=f"run envspec smoke --attach {folders.results}, or choose another folder with -o",
        )
    plan, skipped = _plan(options, cases, skipped, folders)
    if options.output.dry_run:
        return show_steps(plan.steps(), skipped)
    if not plan.cases:
        return finish(options, skipped_runs(skipped, "slurm"), folders.results)
    if find_program("sbatch", os.environ) is None:
        raise ToolError("sbatch isn't in PATH", hint="submit from a login node of the cluster")
    return _hand_over(options, plan, skipped, folders)


def _plan(
    options: SmokeOptions, cases: tuple[SmokeCase, ...], skipped: tuple[Skipped, ...], folders: Folders
) -> tuple[JobPlan, tuple[Skipped, ...]]:
    """Give the jobs of the cases that a partition takes, and the skipped cases."""
    from envspec.prove.smoke.run.jobs import JobPlan
    from envspec.prove.smoke.run.slurm import Partition, partition_of, plan_jobs

    # the folder is used once, so its name makes the jobs' names unique
    token = hashlib.sha256(str(folders.results).encode()).hexdigest()[:8]
    partitions = [partition_of(text) for text in options.submission.partitions] or [Partition(None)]
    homeless = [case for case in cases if not any(place.takes(case.target) for place in partitions)]
    if homeless and len(homeless) == len(cases):
        raise InputError(
            f"no partition takes {', '.join(case.title for case in homeless)}",
            hint="check the patterns of --partition NAME=TARGET,…",
        )
    cases = tuple(case for case in cases if case not in homeless)
    skipped = (*skipped, *((case.spec, case.target, "no --partition takes it") for case in homeless))
    jobs = plan_jobs(cases, partitions, token, asking())
    inner = make_runner(options.place.within, options, folders)
    return JobPlan(cases, jobs, inner, options.checks, options.submission.resources, folders), skipped


def asking() -> Callable[[SmokeCase], tuple[str, ...]]:
    """Give what a case asks of sbatch besides the options: what its spec says, else the site, and its GPUs' nodes."""
    from envspec.base.settings import load_settings
    from envspec.export.site_jobs import constraint

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


def _hand_over(options: SmokeOptions, plan: JobPlan, skipped: tuple[Skipped, ...], folders: Folders) -> int:
    from envspec.prove.smoke.run.jobs import prepare_all
    from envspec.prove.smoke.run.jobs import submit as submit_jobs

    try:
        titles = [f"{case.spec} × {case.target}" for case in plan.cases]
        with progress(titles) as display:
            plan, failed = prepare_all(plan, display.update)
        submitted = submit_jobs(plan, Submitted((), failed, skipped), _remember(folders))
    except KeyboardInterrupt:
        say("interrupted")
        if (folders.results / STATE).exists():
            say(f"hint: some jobs may already be running: envspec smoke --attach {folders.results}")
        return 130
    no_wait = options.submission.no_wait
    numbers = " ".join(job.job for job in submitted.jobs if job.job)
    if numbers:
        say(f"submitted: {numbers}; reports go to {folders.results}")
    for job in submitted.jobs:
        if problem := job.unsure or (job.refused if no_wait else None):
            say(f"{job.name}: {printable(problem)}")
    if no_wait:
        if options.output.as_json:
            raise InputError(
                "--no-wait has no results to print as JSON", hint="leave out --json here, and use it with --attach"
            )
        out(str(folders.results))
        return 3 if failed or any(job.job is None for job in submitted.jobs) else 0
    return _wait(options, submitted, folders.results)


def _remember(folders: Folders) -> Callable[[str], None]:
    """Record where a job's results go, for `--attach JOB`."""

    def remember(job: str) -> None:
        write_text(folders.cache / "jobs" / job, f"{folders.results}\n")

    return remember


def attach(options: SmokeOptions, where: str) -> int:
    """Wait for submitted jobs: `where` is a job's number or the folder of its results. Gives the exit code."""
    results = Path(os.path.abspath(where))
    if not (results / STATE).exists() and where.isdecimal():
        try:
            results = Path((cache_folder() / "jobs" / where).read_text(encoding="utf-8").rstrip("\n"))
        except OSError:
            raise InputError(
                f"job {where} wasn't submitted from this machine", hint="give --attach the folder of its results"
            ) from None
    return _wait(options, read_submitted(results), results)


def _wait(options: SmokeOptions, submitted: Submitted, results: Path) -> int:
    from envspec.prove.smoke.run.jobs import titles, wait

    failed = [Run(s, t, "slurm", "error", None, reason, None, log) for s, t, reason, log in submitted.failed]
    try:
        with progress(list(titles(submitted))) as display:
            runs = wait(submitted, results, display.update, display.ended)
    except KeyboardInterrupt:
        say("interrupted: the jobs keep running")
        say(f"hint: envspec smoke --attach {results}")
        return 130
    return finish(options, (*runs, *failed, *skipped_runs(submitted.skipped, "slurm")), results)
