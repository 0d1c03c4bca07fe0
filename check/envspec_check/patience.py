"""Limits of time for processes: so many seconds, and more on a busy machine, as long as the processes get on."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque

MOST = 10
"""How many times its limit something may take at most."""

STILL = 30.0, 0.02
"""What used less than this share of a processor for so many seconds waits for something that doesn't come."""


class Patience:
    """The patience with a process and all below it: over at the limit when they stand still or had as much of a
    processor's time as that, else later."""

    def __init__(self, process: int, limit: float) -> None:
        self.process, self.limit, self.began = process, limit, time.monotonic()
        self.window = min(STILL[0], limit / 2)
        self.used: deque[tuple[float, float]] = deque()

    def over(self) -> bool:
        """Return whether the time is over. The caller asks every second or so."""
        now = time.monotonic()
        if now - self.began < self.limit - self.window:
            return False
        spent = processor_seconds(self.process)
        self.used.append((now, spent))
        while self.used[0][0] < now - self.window:
            self.used.popleft()
        since, before = self.used[0]
        still = spent - before < STILL[1] * (now - since)
        over = still or spent >= self.limit or now - self.began >= MOST * self.limit
        return over and now - self.began >= self.limit


def processor_seconds(process: int) -> float:
    """Return the processors' time of a process, of those below it, and of those that these have waited for. To look
    costs little: a machine may have thousands of others."""
    ticks, left = 0, [process]
    while left:
        folder = "/proc/%d/" % left.pop()
        with contextlib.suppress(OSError):
            with open(folder + "stat", "rb") as file:
                ticks += sum(map(int, file.read().rpartition(b")")[2].split()[11:15]))
            for task in os.listdir(folder + "task"):
                with open(folder + "task/%s/children" % task, "rb") as file:
                    left += map(int, file.read().split())
    return ticks / os.sysconf("SC_CLK_TCK")
