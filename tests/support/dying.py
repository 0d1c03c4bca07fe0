"""Runs `envspec ARGUMENTS` in a forked child that is killed at its Nth step, for each N read from stdin: before its Nth
change of the filesystem, or before the Nth time that it sends something. Prints `killed`, or `done` where there is no
Nth. 0 lets one run to its end, and imports here what it imported: the next ones begin sooner. More arguments may follow
a number.
"""

import os
import signal
import sys
from importlib import import_module

from envspec.cli.main import run

STEPS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "http.client.send"}
left = 0


def hook(event: str, args: tuple[object, ...]) -> None:
    """Audit hooks come before the step."""
    global left
    if left:
        opens = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in STEPS or opens:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # modules are imported in the child: a .pyc counts as a change until a run lives long enough to write it
    sys.dont_write_bytecode = True
    sys.addaudithook(hook)
    for line in sys.stdin:
        step, *more = line.split()
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            left = int(step)
            status = run([*sys.argv[1:], *more])
            if not int(step):
                os.write(into, " ".join(name for name in sys.modules if name.startswith("envspec.")).encode())
            os._exit(status)
        os.close(into)
        with os.fdopen(out) as pipe:
            names = pipe.read().split()
        for name in names:
            import_module(name)
        status = os.waitpid(child, 0)[1]
        sys.stdout.write("killed\n" if os.WIFSIGNALED(status) else f"done {os.WEXITSTATUS(status)}\n")
        sys.stdout.flush()
