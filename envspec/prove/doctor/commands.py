"""Calls of the machine's programs: with a time limit, in English, and without a terminal for questions."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from envspec.base import programs

SECONDS = 5.0
"""Seconds after which a daemon without an answer counts as hung."""


@dataclass(frozen=True)
class CommandOutput:
    """A program's stdout. `problem` says how the program failed, None if it didn't."""

    out: str
    problem: str | None = None


def ask_program(name: str, *arguments: str, env: Mapping[str, str], seconds: float = SECONDS) -> CommandOutput | None:
    """Run a program. None if it isn't installed. All processes that it started end with it."""
    path = programs.find_program(name, env)
    if path is None:
        return None
    # what can't be preloaded is complained about on stderr, where the program's own words are looked for
    env = {**env, "LC_ALL": "C", "LD_PRELOAD": ""}
    try:
        ran = programs.run([path, *arguments], env, seconds=seconds, session=True)
    except subprocess.TimeoutExpired:
        return CommandOutput("", f"no answer within {seconds:.0f} s")
    except OSError as error:
        return CommandOutput("", error.strerror or str(error))
    out = ran.stdout.decode(errors="replace")
    if ran.returncode:
        said = (ran.stderr.decode(errors="replace") or out).strip().splitlines()
        return CommandOutput(out, next(iter(said), f"exit status {ran.returncode}")[:200])
    return CommandOutput(out)
