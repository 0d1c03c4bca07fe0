"""An environment that is ready to be used, and how a program starts in it.

Starting a ready environment is what happens most often, so this module and `memo` import next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envspec.base.places import KEEP_PYTHONPATH

RECORDS = "etc/envspec"
"""envspec's records in a prefix (`envspec.install.prefix`)."""
STATE = f"{RECORDS}/install.json"
ACTIVATE = "bin/activate"
_OTHERS = {
    True: ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"),
    False: ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER"),
}
"""What an environment of the other kind leaves in the shell, by whether this one is conda's."""


@dataclass(frozen=True)
class Ready:
    """prefix   the environment's folder, absolute
    spec     the spec's name; `target` the target's
    said     the line that says which target it is and why; empty where the user named it
    conda    it is conda's, and a virtual environment otherwise
    scripts  packages have scripts of their own for activation, which a shell has to run
    fixed    variables of every process; `own` those that the caller's replace
    """

    prefix: str
    spec: str
    target: str
    said: str
    conda: bool
    scripts: bool
    fixed: Mapping[str, str]
    own: Mapping[str, str]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Make the variables of a process in the environment, from the caller's."""
        kind = {"VIRTUAL_ENV": self.prefix}
        if self.conda:
            kind = {"CONDA_PREFIX": self.prefix, "CONDA_DEFAULT_ENV": self.spec}
        bin_first = f"{self.prefix}/bin{os.pathsep}{env.get('PATH') or os.defpath}"
        gone = {"PYTHONHOME", *(() if env.get(KEEP_PYTHONPATH) else ("PYTHONPATH",)), *_OTHERS[self.conda]}
        kept = {name: value for name, value in env.items() if name not in gone}
        return {**self.own, **kept, **self.fixed, **kind, "PATH": bin_first}

    def command(self, words: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """Make the command that runs a program in the environment. `env` are the variables of `environment`."""
        if not self.scripts:
            return tuple(words)
        shell = program("bash", env) or "sh"
        return (shell, "-c", '. "$0" && exec "$@"', f"{self.prefix}/{ACTIVATE}", *words)


def program(word: str, env: Mapping[str, str]) -> str | None:
    """Find the program that a command's first word means, as exec does; None where there is none."""
    if os.sep in word:
        return word if _runs(word) else None
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        if _runs(path := os.path.join(folder or os.curdir, word)):
            return path
    return None


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
