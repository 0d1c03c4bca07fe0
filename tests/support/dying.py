"""Runs `envspec ARGUMENTS` in a forked child that is killed at its Nth change of the filesystem, for each N read from
stdin. Prints `killed`, or `done` where there is no Nth."""

from __future__ import annotations

import os
import signal
import sys

from envspec.cli.main import run

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"}
left = 0


def hook(event: str, args: tuple[object, ...]) -> None:
    """Audit hooks come before the change."""
    global left
    if left:
        opens = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in CHANGES or opens:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # modules are imported in the child: a .pyc counts as a change until a run lives long enough to write it
    sys.dont_write_bytecode = True
    sys.addaudithook(hook)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            left = int(line)
            os._exit(run(sys.argv[1:]))
        status = os.waitpid(child, 0)[1]
        sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"done {os.WEXITSTATUS(status)}\n")
        sys.stdout.flush()
