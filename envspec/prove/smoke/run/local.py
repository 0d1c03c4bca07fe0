"""The local runner: an environment of `envspec install`, activated as a user does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath

from envspec.base.programs import HERE
from envspec.prove.smoke.run.case import Folders, SmokeCase
from envspec.prove.smoke.run.command import Command, Step
from envspec.prove.smoke.run.runner import Places

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
        return activated(self.folders.prefix(case), case, arguments)


def activated(prefix: Path, case: SmokeCase, arguments: tuple[str, ...]) -> Command:
    """Make the command of a program under a prefix's Python, with the prefix activated: conda packages set variables
    then.
    """
    unset = [word for name in SCRUBBED for word in ("-u", name)]
    argv = ("env", *unset, "PYTHONNOUSERSITE=1", "bash", "-c", _ACTIVATED, str(prefix), *arguments)
    return Command(argv, f"the checks of {case.title}")
