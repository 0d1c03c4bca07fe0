"""Running commands and measuring them: wall time and peak memory, the sides of a comparison taking turns."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    """seconds of wall time; peak of the resident memory of the process and all its children together, in MB; seconds of
    the processors' time that they took, which a busy machine changes least."""

    seconds: float
    megabytes: float
    processor: float = 0


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Run:
    """Run a command to its end; RuntimeError when it fails."""
    start, taken = time.perf_counter(), _processor()
    process = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak = [0.0]
    watcher = threading.Thread(target=_watch, args=(process.pid, peak), daemon=True)
    watcher.start()
    out, _ = process.communicate()
    seconds = time.perf_counter() - start
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{out}")
    return Run(seconds, peak[0], _processor() - taken)


def turns(sides: Mapping[str, Callable[[], Run]], rounds: int) -> dict[str, Run]:
    """The median of each side, the sides taking turns, so that a slow minute of the machine hits all of them. The
    first round writes the bytecode of changed modules, also where the shell forbids that.
    """
    taken: dict[str, list[Run]] = {name: [] for name in sides}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(rounds):
        for name, side in sides.items():
            taken[name].append(side())
    return {
        name: Run(
            statistics.median(r.seconds for r in runs),
            max(r.megabytes for r in runs),
            statistics.median(r.processor for r in runs),
        )
        for name, runs in taken.items()
    }


IMPORT_CLICK = [sys.executable, "-c", "import click"]
"""The least that a command line of click's can cost: what start-up is measured by."""


def beside(name: str, taken: Run, base: str, least: Run, most: float) -> str:
    """A line that says how much of the processors' time one side takes beside another, and whether that is too much."""
    ratio = taken.processor / least.processor
    over = "" if ratio <= most else f"   over the limit of {most:g}"
    return f"{name}: {taken.processor * 1e3:.0f} ms of CPU, {ratio:.2f} x {base}, {taken.megabytes:.0f} MB{over}"


def envspec(*arguments: str) -> list[str]:
    """The command line of the envspec that this Python has, as its users start it."""
    program = Path(sys.executable).with_name("envspec")
    return [str(program), *arguments] if program.exists() else [sys.executable, "-m", "envspec", *arguments]


def _processor() -> float:
    """Give the processors' time of all children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _watch(pid: int, peak: list[float]) -> None:
    """Sample the memory of a process tree until it is gone."""
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        try:
            total = sum(_resident(member) for member in _tree(pid)) * page / 1e6
        except OSError:
            return
        if not total:
            return
        peak[0] = max(peak[0], total)
        time.sleep(0.005)


def _tree(pid: int) -> list[int]:
    members = [pid]
    for member in members:
        try:
            for thread in Path(f"/proc/{member}/task").iterdir():
                members += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    return members


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
