"""`envspec` in a process of its own that has its modules already: forked from a server that imported them once.

It has its own process number, session, signals and streams, and becomes the program that `envspec run` starts. Only the
start of Python isn't its own: that is `Machine.start`'s.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.context import ForkServerContext
from pathlib import Path

from support.in_process import Ended, TooLong

MODULES = (
    "envspec.cli.main",
    "envspec.cli.run",
    "envspec.cli.install",
    "envspec.app.run",
    "envspec.install.environment",
    "envspec.install.environments.memo",
    "support.forked",
)
"""What most runs read. The server imports them before it forks."""


def run(arguments: tuple[str, ...], *, cwd: Path, env: Mapping[str, str], seconds: float = 90) -> Ended:
    """Run `envspec ARGUMENTS` and give how it ended. Raises TooLong after so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        streams = [os.path.join(folder, name) for name in ("out", "err")]
        process = _server().Process(target=_become, args=(arguments, str(cwd), dict(env), _umask(), *streams))
        process.start()
        try:
            process.join(seconds)
            if process.exitcode is None:
                raise TooLong(f"still running after {seconds:g} s")
            status = process.exitcode
        finally:
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()
        out, err = (Path(path).read_text("utf-8") for path in streams)
        return Ended(status, out, err)


def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(MODULES))
    return context


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def _become(arguments: tuple[str, ...], cwd: str, env: dict[str, str], umask: int, out: str, err: str) -> None:
    """The program, as if it had been started with these. Doesn't return."""
    os.setsid()
    os.chdir(cwd)
    os.umask(umask)
    for number, path in enumerate((os.devnull, out, err)):
        opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    tempfile.tempdir = None
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - the process's own
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    sys.argv = ["-c", *arguments]
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    from envspec.__main__ import main

    main()
