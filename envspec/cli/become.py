"""This process handed to another program: its signals, streams and exit code are that program's from then on."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from envspec.base.errors import ToolError

_umask: list[int] = []
"""The umask with which this process was started."""


def close_umask() -> None:
    """Keep what envspec makes from being writable by all, whatever the umask: an environment that anyone may write to
    runs anyone's code."""
    before = os.umask(0o077)
    _umask[:] = [before]
    os.umask(before | 0o002)


def become(words: Sequence[str], program: str, env: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program, as it would have been started by the caller's shell. Raises ToolError where
    the system can't start it."""
    import signal

    # each command loads this module, and few of them what starts programs
    from envspec.base import programs

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):
        # Python ignores them, which a program would inherit
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    for mask in _umask:
        os.umask(mask)
    try:
        programs.become(program, words, env)
    except OSError as error:
        raise ToolError(f"{program} can't be started: {error.strerror}", hint=_hint(error, program)) from None


def _hint(error: OSError, program: str) -> str:
    import errno

    if error.errno == errno.E2BIG:
        return "its arguments are longer than the system allows: put them into a file"
    if error.errno == errno.ENOEXEC:
        return f"it has no `#!` line: name what runs it, for example sh {program}"
    return "check the program and what its first line names"
