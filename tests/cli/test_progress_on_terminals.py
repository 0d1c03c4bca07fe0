"""Progress of long work: drawn on a terminal and gone at the end, nothing elsewhere."""

import re
import sys
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel
from support.terminal import AtTerminal, at_terminal

pytestmark = pytest.mark.e2e

TERMINAL = {"TERM": "xterm", "COLUMNS": "200"}
NESTED = """
import time
from envspec.cli.console import say
from envspec.cli.progress import Terminal
observer = Terminal()
say("first: before")
with observer.progress() as progress:
    progress.phase("reading the base")
    time.sleep(0.2)
    say("note: told in between", style="cyan")
    with observer.progress("fetching", 1000) as fetching:
        fetching.came(500)
        time.sleep(0.3)
        say("waiting: [for] another", style="red")
        fetching.came(500)
    progress.phase("packing rest", 2000)
    progress.came(1000)
    time.sleep(0.3)
say("last: after")
"""


def drawn(told: bytes) -> list[str]:
    """The words that each drawing of a line began with."""
    found = []
    for piece in told.split(b"\r\x1b[2K")[1:]:
        words = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|[^ -~]", "", piece.decode()).split()
        found.append(words[0] if words else "")
    return [word for number, word in enumerate(found) if word and found[number - 1 : number] != [word]]


@pytest.mark.slow
def test_one_thing_is_drawn_at_a_time_and_messages_have_lines_of_their_own(machine: Machine) -> None:
    shown = at_terminal([sys.executable, "-c", NESTED], env=machine.environment(TERMINAL))
    assert shown.status == 0, shown.told
    assert shown.screen == ["first: before", "note: told in between", "waiting: [for] another", "last: after"]
    assert b"\x1b[1;36mnote:" in shown.told or b"\x1b[36m\x1b[1mnote:" in shown.told
    words = drawn(shown.told)
    assert words.count("fetching") <= 2, "a message parts it, and nothing else is drawn on its line"
    assert "reading" not in words[words.index("fetching") : words.index("packing") - 1], words
    assert b"1.0/2.0 kB" in shown.told and b"/? " not in shown.told


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    """A project with a lock, and a base for its image."""
    lib = wheel("lib", "1.0", padding=8 << 20)
    index.add(lib)
    write_lock(machine, [pip_pin(lib)], platform=SUBDIR)
    write_base(machine.folder / "base", system(PYTHON))
    return machine


def shown(machine: Machine, *arguments: str) -> AtTerminal:
    command = [sys.executable, "-m", "envspec", *arguments]
    return at_terminal(command, cwd=machine.folder, env=machine.environment(TERMINAL))


@pytest.mark.slow
@pytest.mark.skipif(SUBDIR != "linux-64", reason="the base is for linux-64")
@pytest.mark.parametrize(
    ("arguments", "phases"),
    [
        (("image", SPEC, "--base", "./base", "-o", "out.tar"), ("reading the base", "fetching", "packing rest")),
        (("bundle", SPEC, "-o", "demo.tar"), ("fetching", "writing demo.tar")),
        (("install", SPEC, "--prefix", "env"), ("making a virtual environment", "pip: 1 wheel")),
    ],
)
def test_long_work_is_drawn_on_a_terminal_alone(
    arguments: tuple[str, ...], phases: tuple[str, ...], project: Machine, tmp_path: Path
) -> None:
    at = shown(project, *arguments)
    assert at.status == 0, at.told
    assert all(phase.encode() in at.told for phase in phases), at.told
    assert b"\x1b" not in at.out, "stdout is data"
    assert all(line.startswith("hint: ") for line in at.screen), "what was drawn is gone"
    # the same again: as JSON on a terminal, and as text in a pipe
    as_json = shown(project, *arguments, "--json")
    assert as_json.status == 0 and as_json.told == b""
    piped = project.envspec(*arguments, spawn=True, status=0)
    assert all(line.startswith("hint: ") for line in piped.err.splitlines())
    assert not re.search(r"[\x1b\r]", piped.err + piped.out)
