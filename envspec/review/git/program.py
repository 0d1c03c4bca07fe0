"""Runs of git in which a repository's files can't choose the programs that git starts (`envspec.base.programs.git`).

A tracked folder can have the shape of a bare repository, with a configuration that names programs. So git starts at
the top of the work tree.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from envspec.base import programs
from envspec.base.errors import InputError, ToolError
from envspec.base.plain_files import SECONDS, refuse_odd_file


def work_tree(folder: Path) -> Path | None:
    """Return the top of the work tree that a folder is in; None outside one.

    The nearest folder with a `.git` decides: git tracks no file of that name, so no commit can plant one.
    """
    folder = folder.resolve()
    return next((top for top in (folder, *folder.parents) if os.path.lexists(top / ".git")), None)


def run_git(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run `git <arguments>` at the top of the work tree that `folder` is in, or at `/` outside one, and return how it
    ended. git asks no questions, speaks English and fetches nothing.

    `env` is the environment, this process's own if left out. Raises NotPlain for a pipe or a device among git's own
    files, ToolError where git can't be started or doesn't end.
    """
    env, top = programs.git_environment(os.environ if env is None else env), work_tree(folder)
    if top is not None:
        _refuse_odd(top / ".git")
    try:
        return programs.run(programs.git(arguments), env, top or programs.ROOT, seconds=SECONDS)
    except subprocess.TimeoutExpired:
        hint = f"see what keeps it: run `git {arguments[0]}` by hand"
        raise ToolError(f"git didn't end within {SECONDS:g} s", hint=hint) from None
    except FileNotFoundError:
        raise ToolError("git isn't installed", hint="install it, or put it on PATH") from None
    except OSError as error:
        raise ToolError(f"git can't be started: {error.strerror}") from None


def _refuse_odd(place: Path) -> None:
    """Raise NotPlain for a file that git would wait for. Objects don't count: a repository may have any number of
    them."""
    for folder, folders, files in os.walk(place):
        folders[:] = [name for name in folders if name != "objects"]
        for name in files:
            with suppress(OSError):
                refuse_odd_file(os.path.join(folder, name))


def git_error(ran: subprocess.CompletedProcess[bytes]) -> str:
    """Return the reason of git's failure: the first line of its message."""
    message = ran.stderr.decode(errors="replace").strip().split("\n")[0]
    return message.removeprefix("fatal: ").strip() or f"exit code {ran.returncode}"


def git_output(arguments: Sequence[str], folder: Path, *, allowed: Sequence[int] = (0,)) -> str:
    """Return the stdout of `git <arguments>`, run as `run_git` does, without the last line end.

    Raises InputError where `folder` is in no work tree that `arguments` ask for; ToolError when git is missing or
    fails with a status that isn't `allowed`.
    """
    ran = run_git(arguments, folder)
    if ran.returncode in allowed:
        return ran.stdout.decode(errors="surrogateescape").removesuffix("\n")
    reason = git_error(ran)
    if "not a git repository" in reason:
        raise InputError(
            f"{folder} isn't in a git work tree", hint="run this in a clone, or use --global for all of yours"
        )
    raise ToolError(f"`git {arguments[0]}` failed: {reason}")
