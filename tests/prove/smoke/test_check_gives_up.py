"""Children that the check waited for long enough, and kills: what is told is why, not that they were killed.

torch's DataLoader hears of every child that ends, and raises that a worker was killed. Its stand-in here does too, at
once. tests/e2e/test_broken_environments.py has the real one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.smoke_env import CHECK

BEGIN = """
import multiprocessing, os, signal, sys, time, types
from pathlib import Path
sys.path[:0] = [CHECK, FOLDER]
from envspec_check import interface, process
from envspec_check.checks import dataloader
from envspec_check.checks.stack import imports

def heard(*_):
    raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")

class Loader:
    def __init__(self, *_, **__):
        signal.signal(signal.SIGCHLD, heard)
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,)).start()
    def __iter__(self):
        raise RuntimeError("DataLoader timed out after 2 seconds")

kill = os.kill
os.kill = lambda *words: (kill(*words), time.sleep(0.1))
sys.modules["torch"] = torch = types.ModuleType("torch")
torch.manual_seed, torch.utils = id, types.SimpleNamespace(data=types.SimpleNamespace(DataLoader=Loader))
"""


def said(folder: Path, program: str) -> str:
    """What a program prints whose children all end by being killed."""
    text = f"CHECK, FOLDER = {str(CHECK)!r}, {str(folder)!r}\n{BEGIN}{program}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_worker_of_a_stand_in_for_the_data_loader_hangs(tmp_path: Path) -> None:
    program = """
ctx = interface.Context({}, "cpu", "basic", 1, True, 0, 6.0, Path(), "check")
try:
    dataloader.load_all(ctx, 8, 4)
except interface.Fault as fault:
    print(fault, multiprocessing.active_children())
"""
    assert said(tmp_path, program) == "a worker gave nothing for 2 s: it hangs []"


def test_an_import_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text("import time\ntime.sleep(60)\n")
    program = "signal.signal(signal.SIGCHLD, heard)\nimports.ONE = 0.2\nprint(imports.import_apart(['hanging'], 1))"
    assert said(tmp_path, program) == "{'hanging': \"hadn't ended after 0.2 s\"}"


@pytest.mark.parametrize(("end", "told"), [("process.give_up(pid)", "unheard"), ("os.kill(pid, 9)", "heard")])
def test_only_those_that_are_given_up_end_unheard(tmp_path: Path, end: str, told: str) -> None:
    program = f"""
signal.signal(signal.SIGCHLD, heard)
try:
    pid, _ = process.fork(lambda: time.sleep(60))
    {end}
    print("unheard")
except RuntimeError:
    print("heard")
assert signal.getsignal(signal.SIGCHLD) is heard
"""
    assert said(tmp_path, program) == told
