"""What a parser may do with an input: answer or refuse it, in time, in little memory, and nothing else.

Time is CPU time, so a busy machine hardly matters. Memory is the peak of the whole process where the system lets it be
reset (Linux), so what compiled code takes counts, too. Starting a program, asking the network and writing anywhere but
in the folder given are told by Python's own audit events.
"""

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from envspec.base.errors import EnvspecError
from envspec.base.redact import forget

SECONDS, SECONDS_PER_KIB = 0.5, 0.1
"""CPU time of an input: so much, and so much for each KiB of it. Real files take a hundredth."""

ENDED = 15
"""Seconds of CPU after which an input is ended, whatever its size."""

MEMORY, MEMORY_PER_BYTE = 48 << 20, 512
"""Bytes that the process may grow by with an input: so many, and so many for each byte of it."""

# of a panic of rattler's, a backtrace takes more than most inputs may
os.environ["RUST_BACKTRACE"] = "0"

MOST_MEMORY = 2 << 30
"""Bytes of address space that it may take at all while it reads one."""


class Fault(AssertionError):
    """What a parser did with an input and may not do."""


@dataclass(frozen=True)
class Parser:
    """What reads something from outside.

    read     takes the bytes of a file or an answer, and an empty folder of its own. What it writes goes there
    exits    the exit codes of the errors that it may raise: 2 for what the user gives, 3 for what others serve
    refuses  the exceptions that its docstring names besides, which its caller turns into such an error
    """

    name: str
    read: Callable[[bytes, Path], object]
    exits: tuple[int, ...] = ()
    refuses: tuple[type[Exception], ...] = ()


def check(parser: Parser, data: bytes) -> None:
    """Raise Fault where a parser doesn't do with these bytes what it should."""
    with tempfile.TemporaryDirectory(prefix="envspec-fuzz-") as folder:
        begun = _peak_from_here()
        seconds = _run(parser, data, Path(folder))
        most = begun + MEMORY + MEMORY_PER_BYTE * len(data)
        if (peak := _peak()) > most:
            raise Fault(f"it took {peak - begun >> 20} MiB for {len(data)} bytes")
    limit = SECONDS + SECONDS_PER_KIB * len(data) / 1024
    if seconds > limit:
        # what is imported or compiled once isn't the input's fault, and other work on the machine only ever adds
        for _ in range(2):
            with tempfile.TemporaryDirectory(prefix="envspec-fuzz-") as folder:
                seconds = min(seconds, _run(parser, data, Path(folder)))
        if seconds > limit:
            raise Fault(f"it took {seconds:.1f} s of CPU for {len(data)} bytes")


def _run(parser: Parser, data: bytes, folder: Path) -> float:
    start = time.process_time()
    try:
        with _limited(), _bounded_memory(), _watched(folder):
            parser.read(data, folder)
    except EnvspecError as error:
        if error.exit_code not in parser.exits:
            raise Fault(f"{type(error).__name__} (exit code {error.exit_code}): {error}") from error
        _check_message(error)
    except parser.refuses:
        pass
    except Fault:
        raise
    except Exception as error:
        raise Fault(f"{type(error).__name__}: {error}"[:500]) from error
    finally:
        # what a login or a token was is remembered; thousands of them would slow down whatever is printed
        forget()
    return time.process_time() - start


def _check_message(error: EnvspecError) -> None:
    if not str(error).strip() or len(str(error)) > 200_000 or "Traceback (most" in str(error):
        raise Fault(f"{type(error).__name__} says nothing that can be read: {str(error)[:200]!r}")


@contextmanager
def _limited() -> Iterator[None]:
    def stop(signum: int, frame: object) -> None:
        raise Fault(f"more than {ENDED} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, ENDED)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """A MemoryError in place of a machine that swaps."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _peak_from_here() -> int:
    """Bytes of memory that the process has now, which counts as its peak from here on, where the system can do that."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << (0 if sys.platform == "darwin" else 10)


_allowed: Path | None = None
"""The folder in which a parser that is running now may write."""

_OUTSIDE = (
    "socket.connect",
    "socket.getaddrinfo",
    "socket.bind",
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.fork",
)
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree")


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _allowed is None:
        return
    if event in _OUTSIDE or event.startswith(("os.posix_spawn", "ctypes.dlopen")):
        raise Fault(f"it went outside: {event} {arguments!r}"[:300])
    if event == "open":
        path, _, flags = arguments
        writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if writes and not _is_within(path):
            raise Fault(f"it wrote outside its folder: {path!r}")
    elif event in _CHANGES and not _is_within(arguments[0]):
        raise Fault(f"it changed something outside its folder: {event} {arguments!r}"[:300])


def _is_within(path: object) -> bool:
    if isinstance(path, int) or _allowed is None:
        return True
    return f"{os.path.abspath(os.fsdecode(path))}{os.sep}".startswith(f"{_allowed}{os.sep}")  # type: ignore[arg-type]


@contextmanager
def _watched(folder: Path) -> Iterator[None]:
    global _allowed
    _installed()
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _allowed = folder
    try:
        yield
    finally:
        _allowed = None
        sys.dont_write_bytecode = bytecode


def _installed(done: list[bool] = []) -> None:  # noqa: B006 - once a process: a hook can't be taken back
    if not done:
        sys.addaudithook(_hook)
        done.append(True)
