"""The processes of a resolution, which end with it: uv, git, build backends, and their children."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from envspec.base import programs


@dataclass
class Processes:
    """The running programs, started from several threads."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _stopped: bool = False

    def run(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. It ends early, with all its children, if this call is interrupted or `stop` is
        called.

        Raises OSError if it can't be started, subprocess.TimeoutExpired.
        """
        process = programs.start(command, env, cwd)
        try:
            self._running.add(process)
            if self._stopped:
                # started by another thread while `stop` went through those that ran
                end(process.pid)
            out, err = process.communicate(timeout=timeout)
        finally:
            self._running.discard(process)
            if process.poll() is None:
                end(process.pid)
                process.kill()
                process.wait()
                for stream in (process.stdout, process.stderr):
                    if stream:
                        stream.close()
        told = (each.decode(errors="replace").replace("\r\n", "\n") for each in (out, err))
        return subprocess.CompletedProcess(process.args, process.returncode, *told)

    def begin(self) -> None:
        """Let programs be started, as in the beginning: those that `stop` ended belonged to what failed."""
        self._stopped = False

    def stop(self) -> None:
        """End every running program, and any that is started before `begin`."""
        self._stopped = True
        for process in tuple(self._running):
            if process.poll() is None:
                end(process.pid)


def end(pid: int) -> None:
    """Tell a process and all its children to end; without /proc, only the process itself.

    With a session of its own, one call would do, but git and ssh would lose the terminal for their questions.
    """
    for each in (pid, *_descendants(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGTERM)


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            texts = [path.read_text() for path in Path(f"/proc/{parent}/task").glob("*/children")]
        except OSError:
            continue
        children = [int(child) for text in texts for child in text.split()]
        found += children
        waiting += children
    return found
