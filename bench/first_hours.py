"""The five users' first hour (tests/journeys), each command a process of its own: wall time by command and in all.

The index is the recording on loopback, so what is measured is envspec and uv, not a network.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / name) for name in (".", "journeys")]

from first_hours import hours, live, place  # noqa: E402
from stacks.recording import Recording  # noqa: E402
from support.machine import Ran  # noqa: E402


def main() -> None:
    """Print each command's seconds, and each user's sum."""
    print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    recording = Recording.load()
    for user, hour in hours().items():
        total = 0.0
        with tempfile.TemporaryDirectory() as folder, place(Path(folder), recording, hour) as machine:

            def run(arguments: list[str]) -> Ran:
                with machine.start(*arguments) as process:
                    out, err = process.communicate()
                return Ran(process.returncode, out, err)

            start = time.perf_counter()
            for line in live(machine, hour, run):
                now = time.perf_counter()
                print(f"{user}: {now - start:6.2f} s  {line}")
                total, start = total + now - start, time.perf_counter()
        print(f"{user}: {total:6.2f} s in all")


if __name__ == "__main__":
    main()
