"""Starting programs: nothing else in envspec does.

What a program does depends on the folder that it starts in and on its environment, and neither may be chosen by a
repository that someone cloned. So a program starts at `/`, unless its caller names one of these folders:

  git                    the top of the work tree that git is asked about
  uv, builds, compilers  a scratch folder of envspec's own
  apptainer's build      the folder of its recipe, which envspec wrote
  a program of the user  where the user stands (`become`, and `HERE` for paths that the user gave)

Its environment is the one that its caller names, without folders that depend on where it starts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from msgspec import Struct

from envspec.base.places import home_path

ROOT = Path(os.sep)
"""Where a program starts that needs no folder: it has no configuration, no module and no library of anyone's."""
HERE = Path()
"""Where the user stands."""

ENVSPEC = (sys.executable, str(Path(__file__).resolve().parents[1] / "__main__.py"))
"""The command that starts this envspec from any folder. `python -m envspec` would import what lies in that folder."""

_FOLDERS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS")
"""The variables that list folders to take programs, their code and configuration from. An empty entry is the working
folder."""
_XDG = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")

_GIT = (
    "safe.bareRepository=explicit",
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    "diff.external=",
)
_GIT_ALONE = ("credential.helper=", "core.askPass=")
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF")
"""Environment variables that git sets for hooks. They may name a different repository than the folder's."""


def find_program(name: str, env: Mapping[str, str]) -> str | None:
    """Find a program in the folders of PATH that don't depend on where the user stands. None where it isn't."""
    path = shutil.which(name, path=with_absolute_paths(env).get("PATH", os.defpath))
    return path and os.path.abspath(path)


_PLACES = re.compile(
    "(UV|ENVSPEC)_[A-Z_]+_DIR|[A-Z_]+_(CACHE_?DIR|CERT_DIR|(CONFIG|AUTH|CERT)_FILE|CA_BUNDLE|HOME)|TMPDIR"
    "|ENVSPEC_CONFIG|CONDARC|NETRC|DOCKER_CONFIG|PIP_CERT|GIT_(CONFIG_(GLOBAL|SYSTEM)|SSL_(CAINFO|CAPATH|CERT|KEY))"
    "|SSH_AUTH_SOCK"
)
"""The variables that name a program's file or folder: relative, it's below the user's working folder, in which no
program starts."""


def with_absolute_paths(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose lists of folders hold absolute ones alone, whose HOME is absolute and whose relative
    XDG folders are left out: programs would read a clone's files as the user's own configuration. uv's empty variables
    go too, with which it doesn't start."""
    cleaned = {name: value for name, value in env.items() if name not in _XDG or os.path.isabs(value)}
    cleaned = {name: value for name, value in cleaned.items() if value or not name.startswith("UV_")}
    for name, value in cleaned.items():
        if value and value[0] not in "/~" and _PLACES.fullmatch(name):
            cleaned[name] = os.path.abspath(value)
    if not os.path.isabs(cleaned.get("HOME", os.sep)):
        cleaned["HOME"] = home_path(env)
    for name in _FOLDERS:
        if name in env:
            cleaned[name] = os.pathsep.join(each for each in env[name].split(os.pathsep) if os.path.isabs(each))
    if cleaned.get("PATH") == "":
        cleaned["PATH"] = os.defpath  # an empty one is the working folder, too
    return cleaned


class Streams(Struct, frozen=True):
    """A program's stdin, stdout and stderr, as `subprocess` takes them."""

    stdin: int | IO[bytes] = subprocess.DEVNULL
    stdout: int | IO[bytes] = subprocess.PIPE
    stderr: int | IO[bytes] = subprocess.PIPE


PIPED = Streams()


def start(
    words: Sequence[str],
    env: Mapping[str, str],
    folder: Path = ROOT,
    *,
    streams: Streams = PIPED,
    session: bool = False,
    pass_fds: Sequence[int] = (),
    first: Callable[[], object] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a folder; in a session of its own with `session`. `first` runs in the child before it.

    Raises OSError.
    """
    return subprocess.Popen(
        words, cwd=folder, env=with_absolute_paths(env),
        stdin=streams.stdin, stdout=streams.stdout, stderr=streams.stderr,
        start_new_session=session, pass_fds=pass_fds, preexec_fn=first,
    )  # fmt: skip


def run(
    words: Sequence[str],
    env: Mapping[str, str],
    folder: Path = ROOT,
    *,
    given: bytes | None = None,
    seconds: float | None = None,
    stderr: int | IO[bytes] = subprocess.PIPE,
    session: bool = False,
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end, and give its output. It reads `given`, and ends early, with its session if it has one
    of its own, when this call is interrupted. Raises OSError, subprocess.TimeoutExpired after `seconds`.
    """
    streams = Streams(subprocess.DEVNULL if given is None else subprocess.PIPE, stderr=stderr)
    with start(words, env, folder, streams=streams, session=session) as process:
        try:
            out, err = process.communicate(given, timeout=seconds)
        except BaseException:
            if session and sys.platform != "win32":
                os.killpg(process.pid, 9)
            else:
                process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def become(program: str, words: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program of the user, where the user stands. Raises OSError."""
    os.execve(program, list(words), dict(env))


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """Give the command by which this Python runs code with the modules of this process, and no others."""
    path = [os.path.abspath(each) for each in sys.path if each]
    begin = f"import sys; sys.path[:] = {path!r}; sys.dont_write_bytecode = {sys.dont_write_bytecode!r}\n"
    return (sys.executable, "-I", "-c", begin + code, *arguments)


def git(arguments: Sequence[str], *, fetches: bool = False) -> list[str]:
    """Give the command of git, so that nothing in a repository's files decides what it runs: it takes no bare
    repository that it finds by itself, and runs no hook, file system monitor or external diff. Source:
    https://git-scm.com/docs/git-config, `safe.bareRepository`, `core.fsmonitor`, `core.hooksPath`."""
    settings = _GIT if fetches else (*_GIT, *_GIT_ALONE)
    return ["git", "--no-pager", *(word for setting in settings for word in ("-c", setting)), *arguments]


def git_environment(env: Mapping[str, str], *, fetches: bool = False) -> dict[str, str]:
    """Make git's environment: it asks no questions, and unless it `fetches`, it speaks English and reaches no
    remote."""
    cleaned = {name: value for name, value in env.items() if name not in _OF_HOOKS} | {"GIT_TERMINAL_PROMPT": "0"}
    if fetches:
        return cleaned
    return cleaned | {
        "LC_ALL": "C",
        "GIT_NO_LAZY_FETCH": "1",  # git 2.44 and later
        "GIT_ALLOW_PROTOCOL": "",  # for older ones: no transport may start, whatever the configuration says
        "GIT_OPTIONAL_LOCKS": "0",
    }
