"""Runs on this machine, one case after the other: parallel runs would distort the figures."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from envspec.base.errors import EnvspecError, InputError, StorageError
from envspec.base.open_folder import locate
from envspec.export.carried import check_digest
from envspec.lock.exclusive import exclusive
from envspec.prove.smoke.report.read import load_report
from envspec.prove.smoke.report.result import Run
from envspec.prove.smoke.run.case import REPORT, CheckOptions, Command, Folders, Runner, SmokeCase, Step, check
from envspec.prove.smoke.run.process import FinishedProgram, last_lines, run_step, silent

LOG = "log.txt"

OnText = Callable[[int, str], None]
"""The callback with the index of a case and its current step."""


def steps(runner: Runner, case: SmokeCase, options: CheckOptions, folders: Folders) -> tuple[tuple[Step, ...], Command]:
    """Return the steps that prepare a case's environment, and the command that checks it."""
    carried, results = folders.carried_folder(case), folders.run(case.title)
    before: tuple[Step, ...] = (
        folders.carry(case),
        Command(("mkdir", "-p", str(results)), "the folder of the run"),
        *runner.prepare(case),
    )
    return before, check(runner, case, options, str(carried), str(results))


def run_cases(
    runner: Runner,
    cases: Sequence[SmokeCase],
    options: CheckOptions,
    folders: Folders,
    on_text: OnText = lambda index, text: None,
    on_end: Callable[[int, Run], None] = lambda index, run: None,
) -> tuple[Run, ...]:
    """Run every case to its end; a case that can't run is an error, and the others run all the same."""
    runs = []
    for index, case in enumerate(cases):
        run = _run_case(runner, case, options, folders, partial(on_text, index))
        on_end(index, run)
        runs.append(run)
    return tuple(runs)


def _run_case(
    runner: Runner, case: SmokeCase, options: CheckOptions, folders: Folders, on_text: Callable[[str], None]
) -> Run:
    results = folders.run(case.title)
    log, report = results / LOG, results / REPORT
    try:
        _forget(log, report)
        before, checking = steps(runner, case, options, folders)
        problem = prepare(case, before, folders, log, on_text)
        if problem:
            return Run(case.spec, case.target, runner.name, "error", None, problem, None, str(log))
        on_text("checking")
        done = run_step(checking, log, lambda line: on_text(line or "checking"))
    except EnvspecError as error:
        return Run(case.spec, case.target, runner.name, "error", None, _reason(error), None, _existing(log))
    by = check_digest(case.carried)
    return finished_run(case.spec, case.target, runner.name, None, done, report, str(log), by)


def _forget(*files: Path) -> None:
    """Remove the files of an earlier run in this folder. Raises NotPlain, StorageError."""
    for path in files:
        try:
            with suppress(FileNotFoundError), locate(path.parent).open() as folder:
                folder.unlink(path.name)
        except OSError as error:
            raise StorageError(f"{path} can't be removed: {error.strerror}") from None


def prepare(
    case: SmokeCase, before: Sequence[Step], folders: Folders, log: Path, on_text: Callable[[str], None] = silent
) -> str | None:
    """Prepare an environment, and give the reason of a failure. Only one process at a time makes an environment.

    Raises StorageError, ToolError.
    """
    held = folders.cache / "held" / case.slug
    try:
        with exclusive(held, lambda: on_text("waiting: another envspec is making this environment")):
            for step in before:
                on_text(step.note)
                done = run_step(step, log, partial(_note, on_text, step.note))
                if done.status:
                    ending = last_lines(done.output)
                    return f"{step.note} can't be made (status {done.status})" + (f"\n{ending}" if ending else "")
            if case.wheels:
                run_step(folders.carry_with_records(case), log)
    except OSError as error:
        raise StorageError(f"{held}: {error.strerror}", hint="choose another cache with ENVSPEC_CACHE_DIR") from None
    return None


def _note(on_text: Callable[[str], None], note: str, line: str) -> None:
    on_text(f"{note}: {line}" if line else note)


def finished_run(
    spec: str,
    target: str,
    runner: str,
    where: str | None,
    done: FinishedProgram,
    report: Path,
    log: str | None,
    by: str | None = None,
) -> Run:
    """Make the run of a check from its exit status and its report. An unusable report, one by another check than the
    one that was carried there (`by` is its digest), or one that contradicts the exit status, is no answer.
    """

    def error(reason: str) -> Run:
        ending = last_lines(done.output)
        return Run(spec, target, runner, "error", where, reason + (f"\n{ending}" if ending else ""), None, log)

    if not report.is_file():
        return error(f"the checks ended with {describe_status(done.status)}, and left no report")
    try:
        loaded = load_report(report)
    except (InputError, StorageError) as problem:
        return error(_reason(problem))
    if (loaded.spec, loaded.target) != (spec, target):
        return error(f"the report is for {loaded.spec} × {loaded.target}")
    if by and loaded.check_digest and loaded.check_digest != by:
        return error(f"the report is by another check than the carried one: {loaded.check_digest}, not {by}")
    run = Run.from_report(spec, target, runner, loaded, where=where, log=log)
    if done.status not in (0, 1) or (done.status == 0) != (run.status == "pass"):
        return error(f"the checks ended with {describe_status(done.status)}, and their report says {run.status}")
    return run


def describe_status(status: int) -> str:
    """Describe an exit status."""
    number = -status if status < 0 else status - 128
    if 0 < number < 65:
        with suppress(ValueError):
            return f"status {status} ({signal.Signals(number).name})"
    return f"status {status}"


def _reason(error: EnvspecError) -> str:
    return f"{error}; {error.hint}" if error.hint else str(error)


def _existing(path: Path) -> str | None:
    return str(path) if path.exists() else None
