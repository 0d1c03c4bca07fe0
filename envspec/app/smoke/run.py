"""Smoke's work: from a request to runs on this machine or in Slurm, and the documents about them."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.app.evidence import keep_reports, kept_runs
from envspec.app.observer import interruption_says, observer, say
from envspec.app.outputs import location, write_text
from envspec.app.smoke.cases import SmokeRequest, choose_cases, make_runner
from envspec.base.atomic import refuse_read_only
from envspec.base.errors import InputError, StorageError, ToolError
from envspec.base.programs import find_program
from envspec.base.storage import storage_error
from envspec.base.texts import byte_size, plural, printable
from envspec.configuration.settings import load_settings
from envspec.export.site_build import constraint
from envspec.prove.proof.table import hardware
from envspec.prove.smoke.report.compare import Comparison, compare
from envspec.prove.smoke.report.junit import junit
from envspec.prove.smoke.report.page import page
from envspec.prove.smoke.report.read import as_json, load_report
from envspec.prove.smoke.report.result import Results, Run, SmokeReport, is_pretended
from envspec.prove.smoke.report.words import WIDTH, lines, seconds
from envspec.prove.smoke.run import slurm
from envspec.prove.smoke.run.case import CONFIG, TIMEOUT, Command, Folders, Skipped, SmokeCase, Step, dry
from envspec.prove.smoke.run.foreground import run_cases, steps
from envspec.prove.smoke.run.jobs import STATE, JobPlan, Submitted, prepare_all, read_submission, submit, titles, wait

# Smoke's jobs in Slurm: planned for the partitions, and submitted.


def plan_jobs(
    request: SmokeRequest, cases: tuple[SmokeCase, ...], skipped: tuple[Skipped, ...], folders: Folders
) -> tuple[JobPlan, tuple[Skipped, ...]]:
    """Give the jobs of the cases that a partition takes, and the skipped cases. Raises InputError."""
    if (folders.results / STATE).exists():
        hint = f"run envspec smoke --attach {folders.results}, or choose another folder with -o"
        raise InputError(f"{folders.results} already holds submitted jobs", hint=hint)
    # the folder is used once, so its name makes the jobs' names unique
    token = hashlib.sha256(str(folders.results).encode()).hexdigest()[:8]
    partitions = [slurm.partition_of(text) for text in request.partitions] or [slurm.Partition(None)]
    homeless = [case for case in cases if not any(place.takes(case.target) for place in partitions)]
    if homeless and len(homeless) == len(cases):
        hint = "check the patterns of --partition NAME=TARGET,…"
        raise InputError(f"no partition takes {', '.join(case.title for case in homeless)}", hint=hint)
    cases = tuple(case for case in cases if case not in homeless)
    skipped = (*skipped, *((case.spec, case.target, "no --partition takes it") for case in homeless))
    jobs = slurm.plan_jobs(cases, partitions, token, _asking())
    inner = make_runner(request.within, request, folders)
    return JobPlan(cases, jobs, inner, request.checks, request.resources, folders), skipped


def _asking() -> Callable[[SmokeCase], tuple[str, ...]]:
    """Give a case's arguments for sbatch besides the options: by its spec, else by the site, and its GPUs' nodes."""
    site = load_settings().site.slurm

    def words(case: SmokeCase) -> tuple[str, ...]:
        of_spec = case.slurm
        of_lock = constraint(site, *case.runs_on) if case.wants_gpu else None
        given = {
            "account": of_spec.account or site.account,
            "partition": of_spec.partition or site.partition,
            "constraint": of_spec.constraint or of_lock,
        }
        return tuple(f"--{name}={value}" for name, value in given.items() if value)

    return words


def submit_jobs(plan: JobPlan, skipped: tuple[Skipped, ...], *, no_wait: bool) -> Submitted:
    """Make the environments and submit the jobs. With `no_wait`, refusals are reported here: no later report has them.

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


class SmokeOutcome(Struct, frozen=True):
    """The runs and their results. `unwritten`: the documents that couldn't be written, for which no hours of a
    cluster are thrown away."""

    results: Results
    folder: Path
    unwritten: tuple[InputError | StorageError, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The results for JSON."""
        return as_json(self.results)

    def text(self, width: int | None, marked: Callable[[str, int], str]) -> list[str]:
        """Give lines for people in so many columns. `marked` pads a status to a width, and colours it."""
        return lines(self.results, width or WIDTH, marked)


class HandedOver(Struct, frozen=True):
    """Jobs that envspec doesn't wait for. `whole`: Slurm took all of them."""

    folder: Path
    whole: bool


def smoke(request: SmokeRequest) -> SmokeOutcome | HandedOver:
    """Run the checks, or wait for submitted jobs. Raises InputError, StorageError, ToolError."""
    _refuse_unwritable(request)
    if request.attach is not None:
        results = _results_of(request.attach)
        return _wait(request, read_submission(results), results)
    folders, cases, skipped = _cases(request)
    if len(cases) > 1 or request.evidence is not None:
        say("\n".join(plan_lines(request, cases, skipped, folders)))
    if request.runner != "slurm":
        runner = make_runner(request.runner, request, folders)
        interrupted = f"finished runs are in {folders.results}"
        with interruption_says(interrupted), observer().runs([case.name for case in cases]) as display:
            runs = run_cases(runner, cases, request.checks, folders, display.update, display.end_run)
        return _outcome(request, (*runs, *_not_run(skipped, request.runner)), folders.results)
    plan, skipped = plan_jobs(request, cases, skipped, folders)
    if not plan.cases:
        return _outcome(request, _not_run(skipped, "slurm"), folders.results)
    submitted = submit_jobs(plan, skipped, no_wait=request.no_wait)
    if request.no_wait:
        whole = not submitted.failed and all(job.job is not None for job in submitted.jobs)
        return HandedOver(folders.results, whole)
    return _wait(request, submitted, folders.results)


def dry_run(request: SmokeRequest, *, whole: bool) -> Iterator[str]:
    """List the skipped targets, and for each other one the run's place, content, longest time and results. `whole`: the
    steps instead, as lines for people and shells. Raises InputError."""
    folders, cases, skipped = _cases(request)
    planned: list[Step]
    if request.runner == "slurm":
        plan, skipped = plan_jobs(request, cases, skipped, folders)
        cases, planned = plan.cases, list(plan.steps())
    else:
        runner = make_runner(request.runner, request, folders)
        each = (steps(runner, case, request.checks, folders) for case in cases)
        planned = [step for before, checking in each for step in (*before, checking)]
    yield from (f"# skipped: {spec} × {target}: {printable(reason)}" for spec, target, reason in skipped)
    if whole:
        yield from [dry(planned)] if planned else ()
        return
    if cases:
        yield from plan_lines(request, cases, skipped, folders)
    for case in cases:
        yield from _summary(request, case, folders)
    yield from (step.shell for step in planned if isinstance(step, Command) and step.argv[0] == "sbatch")


def plan_lines(
    request: SmokeRequest, cases: Sequence[SmokeCase], skipped: Sequence[Skipped], folders: Folders
) -> Iterator[str]:
    """List the targets that run here, with their largest download and the time of their earlier run."""
    reports: dict[tuple[str, str], SmokeReport] = {}
    with suppress(InputError, StorageError):  # whoever keeps reports there is told
        reports = kept_runs((case.path for case in cases), request.evidence)
    files = [frozenset() if _is_made(request, case, folders) else case.files for case in cases]
    took = [reports[case.spec, case.target].seconds for case in cases if (case.spec, case.target) in reports]
    fit = f"plan: {len(cases)} of {plural(len(cases) + len(skipped), 'target')}"
    known = f", {seconds(sum(took))} by the kept reports of {len(took)}" if took else ""
    yield f"{fit}, at most {byte_size(_total(frozenset().union(*files)))} to download{known}"
    for case, own in zip(cases, files, strict=True):
        report = reports.get((case.spec, case.target))
        before = (
            f"{seconds(report.seconds)} before, with {printable(hardware(report))}" if report else "no report is kept"
        )
        yield f"  {case.name}: {byte_size(_total(own)) if own else 'nothing to download'}; {before}"


def _total(files: frozenset[tuple[str, int]]) -> int:
    return sum(size for _, size in files)


def _place(request: SmokeRequest, case: SmokeCase, folders: Folders) -> Path | None:
    """Give where a case's environment or image lies; None for one in an engine."""
    return {"local": folders.prefix(case), "apptainer": request.sif or folders.sif(case)}.get(request.within)


def _is_made(request: SmokeRequest, case: SmokeCase, folders: Folders) -> bool:
    place = _place(request, case, folders)
    return place.exists() if place else request.image is not None


def _summary(request: SmokeRequest, case: SmokeCase, folders: Folders) -> Iterator[str]:
    """Describe a run before it begins."""
    config, checks = json.loads(case.carried[CONFIG]), request.checks
    place = _place(request, case, folders)
    made = "made already" if _is_made(request, case, folders) else "to be made"
    environment = f"{place} ({made})" if place else "from the recipe"
    groups = [", ".join(checks.only) or "all groups", *(word for word in ("quick", "deep") if getattr(checks, word))]
    runner = request.runner if request.within == request.runner else f"{request.within} within {request.runner}"
    results = str(folders.results) if request.output else f"a new folder in {folders.results.parent}"
    yield case.name
    yield f"  runner: {runner}, on {'GPUs' if case.wants_gpu else 'the CPU'}"
    yield f"  environment: {printable(request.image or environment)}"
    yield f"  checks: {', '.join(groups)}"
    yield f"  training: {checks.workload or config['workload']}, {checks.steps or config['steps']} steps"
    yield f"  time: at most {checks.timeout or TIMEOUT} s for each check"
    yield f"  results: {printable(results)}"


def compare_reports(first: Path, second: Path) -> Comparison:
    """Compare two reports, each a file or the only one in a folder of results. Raises InputError, StorageError."""
    first_report, second_report = (load_report(_report_in(path)) for path in (first, second))
    for path, report in ((first, first_report), (second, second_report)):
        if is_pretended(report):
            raise InputError(f"{path} is of a pretended GPU, which proves nothing")
    return compare(first_report, second_report)


def _report_in(path: Path) -> Path:
    if not path.is_dir():
        return path
    reports = sorted(path.glob("runs/*/check.json")) or sorted(path.glob("check.json"))
    if len(reports) != 1:
        raise InputError(f"{path} has {plural(len(reports), 'report')}", hint="name one: DIR/runs/RUN/check.json")
    return reports[0]


def _cache() -> Path:
    """Give the folder that keeps environments and images between runs."""
    return load_settings().cache().absolute() / "smoke"


def _cases(request: SmokeRequest) -> tuple[Folders, tuple[SmokeCase, ...], tuple[Skipped, ...]]:
    if request.output is not None:
        results = Path(os.path.abspath(request.output))
    else:
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        results = _cache() / "results" / f"{stamp}-{secrets.token_hex(2)}"
    return Folders(_cache(), results), *choose_cases(request)


def _not_run(skipped: tuple[Skipped, ...], runner: str) -> tuple[Run, ...]:
    return tuple(Run(spec, target, runner, "skip", None, reason) for spec, target, reason in skipped)


def _results_of(job: str) -> Path:
    """Find the results of submitted jobs: by the folder itself, or by a job's number."""
    results = Path(os.path.abspath(job))
    if (results / STATE).exists() or not job.isdecimal():
        return results
    try:
        return Path((_cache() / "jobs" / job).read_text(encoding="utf-8").rstrip("\n"))
    except OSError:
        raise InputError(
            f"job {job} wasn't submitted from this machine", hint="give --attach the folder of its results"
        ) from None


def _wait(request: SmokeRequest, submitted: Submitted, results: Path) -> SmokeOutcome:
    failed = [Run(s, t, "slurm", "error", None, reason, None, log) for s, t, reason, log in submitted.failed]
    running = f"the jobs keep running, and envspec smoke --attach {results} waits for them"
    with interruption_says(running), observer().runs(list(titles(submitted))) as display:
        runs = wait(submitted, results, display.update, display.end_run)
    return _outcome(request, (*runs, *failed, *_not_run(submitted.skipped, "slurm")), results)


def _refuse_unwritable(request: SmokeRequest) -> None:
    """Test that the documents can be written, before hours of a cluster are spent. Raises StorageError."""
    for option, path in request.documents.items():
        try:
            with location(path.parent, request.paths).open(make=True) as folder:
                folder.refuse_odd(path.name)
                refuse_read_only(folder)
        except OSError as error:
            raise storage_error(error, path, option=option) from None


def _outcome(request: SmokeRequest, runs: tuple[Run, ...], folder: Path) -> SmokeOutcome:
    """Write the documents about the runs."""
    results = Results(runs)
    unwritten: list[InputError | StorageError] = []
    for option, path in request.documents.items():
        try:
            write_text(path, junit(results) if option == "--junit" else page(results), option, request.paths)
            say(f"wrote {printable(str(path))}")
        except StorageError as error:
            unwritten.append(error)
    if request.evidence is not None:
        try:
            keep_reports(request.evidence, folder, _cache() / "environments")
        except (InputError, StorageError) as error:
            unwritten.append(error)
    return SmokeOutcome(results, folder, tuple(unwritten))
