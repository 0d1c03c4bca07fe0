"""Asking programs of the machine a question: with a time limit, in English, and with no terminal to ask back on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

SECONDS = 5.0
"""A daemon that hasn't answered by then hangs."""


@dataclass(frozen=True)
class CommandOutput:
    """What a program wrote to stdout. `problem` says how it failed, None when it didn't."""

    out: str
    problem: str | None = None


def find_program(name: str, env: Mapping[str, str]) -> str | None:
    """The program's path, by the PATH of `env`."""
    return shutil.which(name, path=env.get("PATH", os.defpath))


def ask_program(name: str, *arguments: str, env: Mapping[str, str], seconds: float = SECONDS) -> CommandOutput | None:
    """Run a program. None when it isn't there. The whole of what it started ends with it."""
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
        os.killpg(process.pid, 9)
        process.communicate()
