"""Programs end with what started them, and so does all that they started."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from support.waiting import wait_until

from envspec.resolve.uv.program import Processes

FAMILY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(child.pid))
time.sleep(600)
"""


def environment() -> dict[str, str]:
    return {"PATH": os.defpath}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_what_ran_is_given_back(tmp_path: Path) -> None:
    code = "import sys, os; print('out', os.getcwd()); sys.stderr.buffer.write(b'\\xff'); sys.exit(3)"
    ran = Processes().run([sys.executable, "-c", code], cwd=tmp_path, env=environment())
    assert (ran.returncode, ran.stdout, ran.stderr) == (3, f"out {tmp_path}\n", "\ufffd")


def test_what_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Processes().run([str(tmp_path / "missing")], cwd=tmp_path, env=environment())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes")
def test_stop_ends_children_and_grandchildren(tmp_path: Path) -> None:
    processes = Processes()
    ended: list[int] = []

    def run() -> None:
        command = [sys.executable, "-c", FAMILY, str(tmp_path / "pid")]
        ended.append(processes.run(command, cwd=tmp_path, env=environment()).returncode)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), 10)
    grandchild = int((tmp_path / "pid").read_text())
    assert alive(grandchild)
    processes.stop()
    thread.join(10)
    assert ended and ended[0] != 0
    wait_until(lambda: not alive(grandchild), 10)


def test_what_starts_after_stop_ends_at_once(tmp_path: Path) -> None:
    processes = Processes()
    processes.stop()
    started = time.monotonic()
    assert processes.run(
        [sys.executable, "-c", "import time; time.sleep(600)"], cwd=tmp_path, env=environment()
    ).returncode
    assert time.monotonic() - started < 10


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to see processes")
def test_a_time_limit_ends_all(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        Processes().run(
            [sys.executable, "-c", FAMILY, str(tmp_path / "pid")], cwd=tmp_path, env=environment(), timeout=1.5
        )
    grandchild = int((tmp_path / "pid").read_text())
    wait_until(lambda: not alive(grandchild), 10)
