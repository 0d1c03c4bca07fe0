"""The work of `envspec smoke`: from its options to runs on this machine or in Slurm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envspec.app.smoke.cases import Skipped, choose_cases
from envspec.app.smoke.runners import make_runner
from envspec.cli.console import say
from envspec.cli.smoke import slurm
from envspec.cli.smoke.output import (
    cache_folder,
    finish,
    refuse_unwritable,
    results_folder,
    show_steps,
    skipped_runs,
)
from envspec.cli.smoke.show import progress
from envspec.prove.smoke.run.case import Folders, SmokeCase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envspec.app.smoke.options import SmokeOptions
    from envspec.prove.smoke.run.command import Step
    from envspec.prove.smoke.run.runner import Runner


def run(options: SmokeOptions) -> int:
    """Run what the options ask for, and give the exit code. Raises InputError, StorageError, ToolError."""
    refuse_unwritable(options)
    if options.attach is not None:
        return slurm.attach(options, options.attach)
    folders = Folders(cache_folder(), results_folder(options))
    cases, skipped = choose_cases(options)
    if options.place.runner == "slurm":
        return slurm.submit(options, cases, skipped, folders)
    runner = make_runner(options.place.runner, options, folders)
    if options.output.dry_run:
        return show_steps(_steps(options, runner, cases, folders), skipped)
    return _run_here(options, runner, cases, skipped, folders)


def _run_here(
    options: SmokeOptions,
    runner: Runner,
    cases: Sequence[SmokeCase],
    skipped: tuple[Skipped, ...],
    folders: Folders,
) -> int:
    from envspec.prove.smoke.run.foreground import run_cases

    titles = [f"{case.spec} × {case.target}" for case in cases]
    try:
        with progress(titles) as display:
            runs = run_cases(runner, cases, options.checks, folders, display.update, display.ended)
    except KeyboardInterrupt:
        say(f"interrupted: finished runs are in {folders.results}")
        return 130
    return finish(options, (*runs, *skipped_runs(skipped, options.place.runner)), folders.results)


def _steps(options: SmokeOptions, runner: Runner, cases: Sequence[SmokeCase], folders: Folders) -> list[Step]:
    from envspec.prove.smoke.run.foreground import steps

    found: list[Step] = []
    for case in cases:
        before, checking = steps(runner, case, options.checks, folders)
        found += [*before, checking]
    return found
