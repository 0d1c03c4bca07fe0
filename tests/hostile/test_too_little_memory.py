"""A machine, or a job on it, that gives little memory: whoever runs out says so, and nothing reads as a fault."""

import subprocess
import sys

import pytest
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine, Ran
from support.matrix import first_by_day
from support.packages import wheel

from envspec.base.storage import shortage

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")]

LIMITED = """\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv.pop(1)) << 20,) * 2)
runpy.run_module("envspec", run_name="__main__", alter_sys=True)
"""
COMMANDS = {
    "lock": ["lock", SPEC, "--upgrade"],
    "bundle": ["bundle", SPEC, "-o", "demo.tar"],
    "install": ["install", SPEC, "--prefix", "env"],
    "export": ["export", SPEC, "--format", "all", "-o", "recipes"],
}


@pytest.mark.by_commit(4)
@pytest.mark.parametrize(
    ("command", "mebibytes"),
    first_by_day(1, [("lock", 40), ("install", 60), *((name, size) for name in COMMANDS for size in (36, 48, 100))]),
)
def test_a_limit_on_the_whole_of_envspec(machine: Machine, index: Index, command: str, mebibytes: int) -> None:
    app = wheel("app", "1.0")
    index.add(app)
    write_lock(machine, [pip_pin(app)])
    before = machine.files()
    program = machine.base / "limited.py"
    program.write_text(LIMITED)
    ended = subprocess.run(
        [sys.executable, program, str(mebibytes), *COMMANDS[command]],
        cwd=machine.folder, env=machine.environment(), capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    ran = Ran(ended.returncode, ended.stdout, ended.stderr)
    assert "has a fault" not in ran.err and "Traceback" not in ran.err, ran.err
    # uv may be ended in a way that tells nothing
    short = "ran out of memory or threads, or reached the system's limit on them"
    assert ran.status == 0 or (ran.status == 3 and (ran.error.endswith(short) or "uv was ended by SIG" in ran.error))
    assert ran.status == 0 or (ran.hint and machine.files() == before), ran.err


@pytest.mark.parametrize(
    "text",
    [
        "SystemError: error return without exception set",
        "SystemError: <function _find_and_load at 0x7fca5af6fce0> returned NULL without setting an exception",
    ],
)
def test_python_without_memory_for_an_error(text: str) -> None:
    short = shortage("envspec", text)
    assert short is not None and "memory" in short.message
