"""A program that writes locks, to be killed, stalled and starved by the tests.

lock_writer.py fault     reads lines `kill|fail N FOLDER`; for each, a forked child writes the new lock into FOLDER
                         and is killed at, or gets ENOSPC from, its Nth change of the filesystem (from 1).
                         Prints `killed`, `failed`, `survived` (it can do without that change) or
                             `done` (there is no Nth).
lock_writer.py limit FOLDER BYTES    writes the new lock with a limit on the size of a file
lock_writer.py hold FOLDER folder|file    takes the folder for itself, prints `in`, and writes at the next line of
                         stdin; prints `waiting` before that if it has to. With `file`, folders can't be locked.
"""

import errno
import fcntl
import json
import os
import resource
import signal
import stat
import sys
from pathlib import Path

from lock_samples import sample_lock, wheel
from msgspec import structs

from envspec.base.errors import StorageError
from envspec.lock.model import Lock
from envspec.lock.store import LockFolder

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"}


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def old_lock() -> Lock:
    return sample_lock()


def new_lock() -> Lock:
    """A target is gone, one is new, one has another package and one stays as it is."""
    cpu, volta, hopper = sample_lock().targets
    more = structs.replace(volta, pins=(*volta.pins, wheel("tqdm", "4.67.1")))
    return structs.replace(sample_lock(), targets=(structs.replace(cpu, name="cpu-new"), more, hopper))


def write_new(folder: Path) -> None:
    LockFolder(folder.parent, folder.name).write(new_lock())


class Fault:
    """Counts changes of the filesystem once it's armed, and strikes at one. Audit hooks come before the change."""

    def __init__(self) -> None:
        self.left = 0
        self.kill = False
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple[object, ...]) -> None:
        if not self.left:
            return
        opens = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if event in CHANGES or opens:
            self.left -= 1
            if self.left == 0:
                if self.kill:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fault() -> None:
    armed = Fault()
    for line in sys.stdin:
        kind, number, folder = line.split()
        child = os.fork()
        if child == 0:
            armed.kill, armed.left = kind == "kill", int(number)
            try:
                write_new(Path(folder))
            except StorageError as error:
                os._exit(3 if "No space" in str(error) else 4)
            os._exit(0 if armed.left else 5)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            say("killed" if os.WTERMSIG(status) == signal.SIGKILL else f"signal {os.WTERMSIG(status)}")
        else:
            code = os.WEXITSTATUS(status)
            say({0: "done", 3: "failed", 5: "survived"}.get(code, f"exit {code}"))


def limit(folder: Path, size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        write_new(folder)
    except StorageError as error:
        sys.stderr.write(json.dumps({"exit": error.exit_code, "message": str(error)}))
        sys.exit(error.exit_code)


def hold(folder: Path, how: str) -> None:
    if how == "file":
        real = fcntl.flock

        def files_only(descriptor: int, operation: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            real(descriptor, operation)

        fcntl.flock = files_only  # type: ignore[assignment]
    store = LockFolder(folder.parent, folder.name)
    with store.exclusive(lambda: say("waiting")):
        say("in")
        sys.stdin.readline()
        store.write(new_lock())
    say("out")


if __name__ == "__main__":
    if sys.argv[1] == "fault":
        fault()
    elif sys.argv[1] == "limit":
        limit(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        hold(Path(sys.argv[2]), sys.argv[3])
