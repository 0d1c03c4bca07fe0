"""Runners: how an environment is made, and how a Python program runs inside it.

A runner only describes `Step`s; `envspec.prove.smoke.run.foreground` and `envspec.prove.smoke.run.slurm` have them run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from envspec.export.plan import CHECK
from envspec.prove.smoke.run.case import CONFIG, REPORT, CheckOptions, SmokeCase
from envspec.prove.smoke.run.command import Command, Step


@dataclass(frozen=True)
class Places:
    """The folder of the carried files and the folder for results, as a program inside the environment sees them."""

    carried: PurePath
    results: PurePath


class Runner(Protocol):
    """One way to run the checks.

    `carried` and `results` are paths of the machine that the program runs on; `results` may be a shell variable's mark.
    """

    @property
    def name(self) -> str:
        """The runner's name in reports."""

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        """List the steps that make the environment. Repeating them is cheap: they use existing results."""

    def places(self, carried: str, results: str) -> Places:
        """Give the paths of these two folders inside the environment."""

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        """Make the command that runs the environment's Python with these arguments."""


def check(runner: Runner, case: SmokeCase, options: CheckOptions, carried: str, results: str) -> Command:
    """Make the command that runs the checks of a case; their report is `check.json` in `results`."""
    inside = runner.places(carried, results)
    arguments = (
        "-I",
        str(inside.carried / CHECK),
        "--config",
        str(inside.carried / CONFIG),
        *options.arguments(),
        "--json",
        str(inside.results / REPORT),
    )
    return runner.python(case, carried, results, arguments)
