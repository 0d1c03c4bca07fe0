"""The execution of runners' steps: the one place that starts programs and writes their files."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from envspec.base import programs
from envspec.base.atomic import replace_files
from envspec.base.errors import Place, StorageError, ToolError
from envspec.base.open_folder import locate
from envspec.base.plain_files import open_plain
from envspec.export.plan import encode
from envspec.prove.smoke.run.case import Command, Files, Step

_TERM_SECONDS = 10.0
"""The time for a program to end after a signal, in seconds."""
_TICK = 0.2
_TAIL = 64 * 1024


class FinishedProgram(Struct, frozen=True):
    """The end of a program: its exit status (negative: the signal that killed it), and the end of its output."""

    status: int
    output: str = ""


Watch = Callable[[str], None]
"""The callback for a program's last line of output, called from time to time."""


def silent(line: str) -> None:
    """Ignore the output."""


def run_step(step: Step, log: Path, watch: Watch = silent) -> FinishedProgram:
    """Run one step, with a program's output appended to `log`. A `Command` that isn't needed any more ends with 0.

    Raises StorageError, and ToolError for a program that can't be started. An interruption first ends the program and
    its children.
    """
    if isinstance(step, Files):
        write(step)
        return FinishedProgram(0)
    if step.unless and ask_program(step.unless).status == 0:
        return FinishedProgram(0)
    return _run(step, log, watch)


def write(files: Files) -> None:
    """Write the files that don't have this text yet. Raises NotPlain, StorageError."""
    try:
        with locate(files.folder).open(make=True) as folder:
            texts = {name: encode(text) for name, text in files.texts if folder.read_at(name) != encode(text)}
            replace_files(folder, texts, executable=[name for name in texts if name.endswith(".sh")])
    except OSError as error:
        raise _unwritable(error, files.folder) from None


def _unwritable(error: OSError, path: Path) -> StorageError:
    return StorageError(f"can't be written: {error.strerror}", place=Place(str(error.filename or path)))


def ask_program(argv: Sequence[str], seconds: float = 60.0) -> FinishedProgram:
    """Run a short program, and give its status and its output on both streams; 127 where it can't be started, 124 where
    it takes longer than `seconds`.
    """
    try:
        done = programs.run(argv, os.environ, seconds=seconds, stderr=subprocess.STDOUT, session=True)
    except subprocess.TimeoutExpired:
        return FinishedProgram(124, f"no answer within {seconds:.0f} s")
    except OSError as error:
        return FinishedProgram(127, error.strerror or str(error))
    return FinishedProgram(done.returncode, done.stdout.decode(errors="replace"))


def _run(command: Command, log: Path, watch: Watch) -> FinishedProgram:
    try:
        with locate(log.parent).open(make=True) as folder:
            file = folder.append(log.name)
    except OSError as error:
        raise _unwritable(error, log) from None
    with file:
        file.write(f"$ {command.shell}\n".encode(errors="replace"))
        file.flush()
        begin = file.tell()
        try:
            process = programs.start(
                command.argv, {**os.environ, **command.hidden}, command.cwd or programs.ROOT,
                streams=programs.Streams(stdout=file, stderr=subprocess.STDOUT), session=True,
            )  # fmt: skip
        except OSError as error:
            hint = "check that the program is installed and in PATH"
            raise ToolError(f"{command.argv[0]} can't be started: {error.strerror}", hint=hint) from None
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_TICK)
                watch(last_line(tail(log, begin, 2000)))
        finally:
            _end(process)
    return FinishedProgram(process.returncode, tail(log, begin))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the rest of a program's process group: an interrupted program, and the processes that it left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    if process.poll() is None:
        deadline = time.monotonic() + _TERM_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_TICK)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def tail(path: Path, begin: int = 0, most: int = _TAIL) -> str:
    """Read the end of a file: at most `most` bytes, none before the offset `begin`. Empty for an unreadable file."""
    try:
        with open_plain(path, links_out=True) as file:
            file.seek(max(begin, file.seek(0, os.SEEK_END) - most))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def last_line(text: str) -> str:
    """Give the last line that isn't empty, without terminal control characters."""
    lines = [line.strip() for line in text.replace("\r", "\n").splitlines() if line.strip()]
    return "".join(c for c in lines[-1] if c.isprintable())[:200] if lines else ""


def last_lines(text: str, count: int = 12) -> str:
    """Give the last lines of a log, as part of a reason."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return "\n".join(lines[-count:])
