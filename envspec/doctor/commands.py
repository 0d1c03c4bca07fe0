"""Calls of the machine's programs: with a time limit, in English, and without a terminal for questions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from envspec.record import dataclass

SECONDS = 5.0
"""Seconds after which a daemon without an answer counts as hung."""


@dataclass(frozen=True)
class CommandOutput:
    """A program's stdout. `problem` says how the program failed, None if it didn't."""

    out: str
    problem: str | None = None


def find_program(name: str, env: Mapping[str, str]) -> str | None:
    """Find the program's path by the PATH of `env`."""
    return shutil.which(name, path=env.get("PATH", os.defpath))


def ask_program(name: str, *arguments: str, env: Mapping[str, str], seconds: float = SECONDS) -> CommandOutput | None:
    """Run a program. None if it isn't installed. All processes that it started end with it."""
    path = find_program(name, env)
    if path is None:
        return None
    try:
        process = subprocess.Popen(
            [path, *arguments],
            # what can't be preloaded is complained about on stderr, where the program's own words are looked for
            env={**env, "LC_ALL": "C", "LD_PRELOAD": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return CommandOutput("", error.strerror or str(error))
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return CommandOutput("", f"no answer within {seconds:.0f} s")
    finally:
        _end(process)
    if process.returncode:
        return CommandOutput(
            out, next(iter((err or out).strip().splitlines()), f"exit status {process.returncode}")[:200]
        )
    return CommandOutput(out)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, 9)
        process.communicate()
