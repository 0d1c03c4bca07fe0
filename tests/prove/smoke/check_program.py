"""A program with a table of checks of its own, run as the check is: for tests of what runs checks."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "recipes/cpu-py311/cpu/target.json"

PROGRAM = """
import ctypes, os, pathlib, resource, signal, subprocess, sys, time
sys.path.insert(0, {root!r})
from envspec_check import interface, process, runner
from envspec_check.command import main

TABLE = {{}}

def put(function):
    return interface.check("operators." + function.__name__, torch=False, table=TABLE)(function)

@put
def before(ctx):
    return interface.passed(figures=[("operators.one", float("nan"), "s")], curves={{"c": [1.0, float("inf")]}})

{body}

@put
def after(ctx):
    return interface.passed()

@interface.internal("shout")
def shout(ctx, word):
    print(word.upper(), ctx.seed)
    return 7

if __name__ == "__main__":
    sys.exit(main(table=TABLE, program=__file__))
"""


def program(folder: Path, body: str) -> Path:
    path = folder / "program.py"
    text = f"@put\ndef bad(ctx):\n    {body}" if body else ""
    path.write_text(PROGRAM.format(root=str(ROOT / "check"), body=text))
    return path


def command(path: Path, *words: str) -> list[str]:
    report = path.with_name("report.json")
    scratch = path.with_name("scratch")
    scratch.mkdir()
    fixed = ("--config", str(CONFIG), "--json", str(report), "--scratch", str(scratch))
    return [sys.executable, str(path), *fixed, *words]


def run(folder: Path, body: str, *words: str) -> tuple[int, dict[str, Any], str]:
    path = program(folder, body)
    done = subprocess.run(command(path, *words), capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == ""
    assert list((folder / "scratch").iterdir()) == []
    return done.returncode, json.loads((folder / "report.json").read_text()), done.stderr


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
