"""Calls of git."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from envspec.errors import InputError, ToolError


def git(arguments: Sequence[str], cwd: Path, *, allowed: Sequence[int] = (0,)) -> str:
    """What `git <arguments>` says on stdout, without the last line end.

    Raises InputError where `cwd` is in no repository, ToolError when git is missing or fails with a status that isn't
    `allowed`.
    """
    try:
        ran = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, check=False)
    except FileNotFoundError:
        raise ToolError("there is no git here", hint="install git, or put it on PATH") from None
    if ran.returncode in allowed:
        return ran.stdout.decode(errors="surrogateescape").removesuffix("\n")
    said = ran.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {ran.returncode}"]
    if "not a git repository" in said[0]:
        raise InputError("this is no git repository", hint="run this inside one; or with --global, for all of yours")
    raise ToolError(f"`git {arguments[0]}` failed: {said[0]}")
