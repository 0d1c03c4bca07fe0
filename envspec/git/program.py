"""Running git, so that nothing in a repository's files decides what it runs.

A tracked folder can have the shape of a bare repository, with a configuration that names programs. So git starts at
the top of the work tree, takes no bare repository that it finds by itself, reaches no remote, and runs no hook, file
system monitor or external diff. https://git-scm.com/docs/git-config: `safe.bareRepository`, `core.fsmonitor`,
`core.hooksPath`, `protocol.allow`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from envspec.errors import InputError, ToolError

_SETTINGS = (
    "safe.bareRepository=explicit",
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "diff.external=",
    "credential.helper=",
    "core.askPass=",
)

_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",  # git 2.44 and later
    "GIT_ALLOW_PROTOCOL": "",  # for older ones: no transport may start, whatever the configuration says
    "GIT_OPTIONAL_LOCKS": "0",
}

_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF")
"""Environment variables that git sets for hooks. They may name a different repository than the folder's."""


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

    `env` is the environment, this process's own if left out. Raises ToolError where git can't be started.
    """
    given = os.environ if env is None else env
    env = {name: value for name, value in given.items() if name not in _OF_HOOKS} | _ENVIRONMENT
    settings = [argument for setting in _SETTINGS for argument in ("-c", setting)]
    try:
        return subprocess.run(
            ["git", "--no-pager", *settings, *arguments],
            cwd=work_tree(folder) or Path(os.sep),
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise ToolError("git isn't installed", hint="install it, or put it on PATH") from None
    except OSError as error:
        raise ToolError(f"git can't be started: {error.strerror}") from None


def git_error(ran: subprocess.CompletedProcess[bytes]) -> str:
    """Return why git failed: the first line of its message."""
    said = ran.stderr.decode(errors="replace").strip().split("\n")[0]
    return said.removeprefix("fatal: ").strip() or f"exit code {ran.returncode}"


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
