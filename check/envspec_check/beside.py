"""Checks that run beside the others, in a thread that waits for them."""

from __future__ import annotations

import queue
import threading
import time
from typing import Iterator, NamedTuple, Optional, Sequence

from envspec_check.interface import Check, Outcome
from envspec_check.runner import Runner

GROUP = "compile"
"""Whose checks wait for a C++ compiler on one core, while the others have the rest."""


class Ran(NamedTuple):
    """A check that ended, and what its runner found."""

    check: Check
    outcome: Outcome
    words: Optional[str]
    memory: Optional[int]
    seconds: float


class Beside:
    """A runner of its own for one group. Nothing runs before `start`."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.ended: queue.Queue[Optional[Ran]] = queue.Queue()
        self.at_work, self.closing = False, False

    def start(self, checks: Sequence[Check], device: str, gpus: int) -> None:
        """Run these checks, one after the other."""
        self.at_work = bool(checks)
        if checks:
            threading.Thread(target=self.work, args=(checks, device, gpus), daemon=True).start()

    def work(self, checks: Sequence[Check], device: str, gpus: int) -> None:
        try:
            for check in checks:
                began = time.monotonic()
                result = self.runner.run(check, device, gpus)
                self.ended.put(Ran(check, *result, time.monotonic() - began))
        except Exception:  # its processes are ended under it when the run is interrupted
            if not self.closing:
                raise
        finally:
            self.ended.put(None)

    def results(self, wait: bool) -> Iterator[Ran]:
        """Yield the checks that ended since the last call; with `wait`, yield all of them."""
        while self.at_work:
            try:
                ran = self.ended.get(block=wait)
            except queue.Empty:
                return
            if ran is None:
                self.at_work = False
            else:
                yield ran

    def close(self) -> None:
        self.closing = True
        self.runner.close()
