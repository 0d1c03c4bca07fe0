"""The command line, called in this process as if it had been started: own arguments, folder, environment and streams.

A start of Python costs more than most commands. What only a process shows (signals, its streams, its start) is tested
with one: `Machine.start`, or `spawn=True`.
"""

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO


class Ended(NamedTuple):
    """How a command ended: exit code, stdout, stderr."""

    status: int
    out: str
    err: str


class TooLong(BaseException):
    """The command line ran past its time. Not an Exception: the command line tells those as its own faults."""


def can_run(env: Mapping[str, str]) -> bool:
    """Whether an environment holds nothing that Python reads at its start alone, and no language: the C library keeps a
    translated message for as long as its process lives. Signals need the main thread."""
    started = {name for name in env if name.startswith(("PYTHON", "LC_", "LANGUAGE"))} - {"PYTHONPATH"}
    return not started and threading.current_thread() is threading.main_thread()


def run(arguments: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], seconds: float = 90) -> Ended:
    """Run `envspec ARGUMENTS` and give how it ended. What it starts inherits the same folder, environment and streams.

    Raises TooLong after so many seconds.
    """
    from envspec.cli import main

    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as err,
    ):
        with _standing(cwd, env), _streams(out, err), _alarm(seconds), _named(arguments):
            try:
                status = main.run(list(arguments))
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().replace("\r\n", "\n"))
    return Ended(status, *texts)


@contextmanager
def _standing(cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    before, folder, scratch = dict(os.environ), os.getcwd(), tempfile.tempdir
    _replace_environment(env)
    tempfile.tempdir = None
    os.chdir(cwd)
    try:
        yield
    finally:
        os.chdir(folder)
        tempfile.tempdir = scratch
        _replace_environment(before)


def _replace_environment(env: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(env):
        del os.environ[name]
    os.environ.update(env)


@contextmanager
def _streams(out: TextIO, err: TextIO) -> Iterator[None]:
    """Descriptors 0 to 2 and Python's own streams: nothing to read, and two files."""
    with open(os.devnull, encoding="utf-8") as nothing:
        kept = [os.dup(number) for number in range(3)]
        python = sys.stdin, sys.stdout, sys.stderr
        for stream in python[1:]:
            stream.flush()
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file.fileno(), number)
        made = [open(fd, mode, encoding="utf-8", closefd=False) for fd, mode in enumerate("rww")]  # noqa: SIM115
        sys.stdin, sys.stdout, sys.stderr = made
        try:
            yield
        finally:
            try:
                for stream in made:
                    stream.close()
            finally:
                sys.stdin, sys.stdout, sys.stderr = python
                for number, descriptor in enumerate(kept):
                    os.dup2(descriptor, number)
                    os.close(descriptor)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(signum: int, frame: object) -> None:
        raise TooLong(f"still running after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _named(arguments: tuple[str, ...]) -> Iterator[None]:
    before, sys.argv = sys.argv, ["-c", *arguments]
    try:
        yield
    finally:
        sys.argv = before
