"""Running git."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from envspec.errors import InputError, ToolError


def run_git(
    arguments: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `git <arguments>` in `cwd` and return how it ended. git asks no questions and speaks English.

    `env` is the environment, this process's own if left out. Raises ToolError where git can't be started.
    """
    env = {**(os.environ if env is None else env), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        return subprocess.run(
            ["git", *arguments], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except FileNotFoundError:
        raise ToolError("git isn't installed", hint="install it, or put it on PATH") from None
    except OSError as error:
        raise ToolError(f"git can't be started: {error.strerror}") from None


def git_error(ran: subprocess.CompletedProcess[bytes]) -> str:
    """Return why git failed: the first line of its message."""
    said = ran.stderr.decode(errors="replace").strip().split("\n")[0]
    return said.removeprefix("fatal: ").strip() or f"exit code {ran.returncode}"


def git_output(arguments: Sequence[str], cwd: Path, *, allowed: Sequence[int] = (0,)) -> str:
    """Return the stdout of `git <arguments>`, without the last line end.

    Raises InputError where `cwd` is in no repository, or in one without a work tree that `arguments` ask for; ToolError
    when git is missing or fails with a status that isn't `allowed`.
    """
    ran = run_git(arguments, cwd)
    if ran.returncode in allowed:
        return ran.stdout.decode(errors="surrogateescape").removesuffix("\n")
    reason = git_error(ran)
    if "not a git repository" in reason:
        raise InputError("this isn't a git repository", hint="run this in one, or use --global for all of yours")
    if "must be run in a work tree" in reason:
        raise InputError(
            "this git repository has no work tree, so it has no .gitattributes",
            hint="run this in a clone with a work tree, or use --global for all of yours",
        )
    raise ToolError(f"`git {arguments[0]}` failed: {reason}")
