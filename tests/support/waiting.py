"""Waiting for what another process or thread does."""

import time
from collections.abc import Callable


def wait_until(true: Callable[[], object], seconds: float = 20) -> None:
    """Return as soon as it is true. Raises AssertionError where it isn't in time."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it took more than {seconds:g} s"
        time.sleep(0.005)
