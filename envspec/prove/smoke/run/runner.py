"""Runners: how an environment is made, and how a Python program runs inside it.

A runner only describes `Step`s; `envspec.prove.smoke.run.foreground` and `envspec.prove.smoke.run.slurm` have them run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Protocol

from envspec.base.programs import HERE
from envspec.export.plan import CHECK
from envspec.prove.smoke.run.case import CONFIG, REPORT, CheckOptions, Folders, SmokeCase
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


SCRUBBED = (
    "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "PYTHONSAFEPATH",
    "PYTHONWARNINGS", "PYTHONOPTIMIZE", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL",
)  # fmt: skip
"""The variables that another Python in the shell would leave. LD_LIBRARY_PATH and LD_PRELOAD stay: trainings on this
machine have them too, and the static checks report what they break.
"""

_ACTIVATED = '. "$0/bin/activate" && exec "$0/bin/python" "$@"'


@dataclass(frozen=True)
class Local:
    """envspec  the command that starts this envspec; `offline`: use no network."""

    folders: Folders
    envspec: tuple[str, ...]
    offline: bool = False
    name: str = "local"

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        prefix = str(self.folders.prefix(case))
        words = ["install", case.path, "--locks-dir", case.locks_dir, "--target", case.target, "--prefix", prefix]
        words += ["--offline"] if self.offline else []
        return (Command((*self.envspec, *words), f"the environment of {case.title}", cwd=HERE),)

    def places(self, carried: str, results: str) -> Places:
        return Places(PurePath(carried), PurePath(results))

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        return with_activation(self.folders.prefix(case), case, arguments)


def with_activation(prefix: Path, case: SmokeCase, arguments: tuple[str, ...]) -> Command:
    """Make the command of a program under a prefix's Python, with the prefix activated: conda packages set variables
    then.
    """
    unset = [word for name in SCRUBBED for word in ("-u", name)]
    argv = ("env", *unset, "PYTHONNOUSERSITE=1", "bash", "-c", _ACTIVATED, str(prefix), *arguments)
    return Command(argv, f"the checks of {case.title}")
