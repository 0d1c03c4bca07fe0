"""A runner: how an environment is made, and how a Python program runs inside it. Runners only say it (`Step`s, pure);
`envspec.smoke.run.foreground` and `envspec.smoke.run.slurm` have it done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from envspec.recipes.carried import CHECK
from envspec.smoke.run.case import CONFIG, REPORT, CheckOptions, SmokeCase
from envspec.smoke.run.command import Command, Step


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
        """What reports call it."""

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        """What makes the environment, in order. Done again, it costs little: what is there already is used."""

    def places(self, carried: str, results: str) -> Places:
        """Where these two folders are inside."""

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        """Run the environment's Python with these arguments."""


def check(runner: Runner, case: SmokeCase, options: CheckOptions, carried: str, results: str) -> Command:
    """Run the checks of a case; their report is `check.json` in `results`."""
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
