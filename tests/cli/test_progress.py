"""Progress of long work: drawn on a terminal and gone at the end, and lines where nothing can be drawn."""

import re
import sys
import time
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, serve_lock
from support.machine import Machine, cpu
from support.packages import wheel
from support.terminal import AtTerminal, at_terminal

from envspec.cli.console import ask_verbose, begin_output
from envspec.cli.progress import InLines
from envspec.install.model import Fetching
from envspec.lock.model import Artifact, Pin


def told(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The lines of a moment, at least one."""
    written = ""
    ends = time.monotonic() + 20
    while not written.endswith("\n") and time.monotonic() < ends:
        time.sleep(0.02)
        written += capsys.readouterr().err
    return {re.sub(r"[0-9]+ s", "0 s", line) for line in written.splitlines()}


def test_a_long_resolution_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    progress = InLines(every=0.02)
    progress.count(3, 9)
    with progress.solving(["cpu", "gpu"]), progress.doing("reading mamba_ssm-2.2.4.tar.gz"):
        time.sleep(0.02)
        with progress.telling():
            lines = told(capsys)
    assert lines == {
        "still at work after 0 s: resolving cpu, gpu (0 s); reading mamba_ssm-2.2.4.tar.gz (0 s); "
        "METADATA of 3 of 9 packages read"
    }


def test_also_between_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with InLines(every=0.02).telling():
        assert told(capsys) == {"still at work after 0 s: resolving"}


def test_a_short_one_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with InLines().telling() as progress, progress.solving(["cpu"]):
        pass
    assert capsys.readouterr().err == ""


def test_downloads_of_a_resolution_say_their_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    ask_verbose()
    progress = InLines(every=0.02)
    with progress.fetching("apex.tar.gz", 4 << 20) as came:
        came(1 << 20)
        time.sleep(0.02)
        with progress.telling():
            assert "still at work after 0 s: fetching apex.tar.gz: 1.0 MB of 4.2 MB (0 s)" in told(capsys)
    assert re.search(r"^fetched apex.tar.gz: 1.0 MB in \d+\.\d s$", capsys.readouterr().err, re.M)
    begin_output()


def test_a_download_says_its_bytes_and_a_build_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    with InLines(every=0.02, text="reading the installed packages").telling() as progress:
        fetching = Fetching(progress)
        fetching.begin([Pin("pip", "torch", "2.9.1", "pypi", Artifact("torch.whl", "0" * 64, 900 << 20))])
        fetching.came(2 << 20)
        capsys.readouterr()
        assert "still at work after 0 s: pip: fetching 1 file: 2.1 MB of 943.7 MB" in told(capsys)
        progress.phase("writing demo.tar", 4 << 20)
        progress.came(1 << 20)
        told(capsys)
        assert "still at work after 0 s: writing demo.tar: 1.0 MB of 4.2 MB" in told(capsys)
        progress.phase("building apex 0.1")
        progress._started -= 2
        told(capsys)
        assert "still at work after 0 s: building apex 0.1 (0 s)" in told(capsys)


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


@pytest.mark.e2e
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
    serve_lock(machine, index, lib, platform=SUBDIR)
    write_base(machine.folder / "base", system(PYTHON))
    return machine


def shown(machine: Machine, *arguments: str) -> AtTerminal:
    command = [sys.executable, "-m", "envspec", *arguments]
    return at_terminal(command, cwd=machine.folder, env=machine.environment(TERMINAL))


@pytest.mark.e2e
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


@pytest.mark.e2e
@pytest.mark.slow
def test_notes_that_the_last_lock_gave_are_a_count_on_a_terminal_alone(machine: Machine, index: Index) -> None:
    """A new one stands in words, and so does each with --verbose, in a pipe and for who hasn't seen the last lock."""
    index.add(*(wheel(name, "1.0") for name in ("app", "lib")))
    spec = machine.spec(
        cpu("app", targets="[targets.gpu]\nplatform='linux-64'\ncuda='12.8'\ngpus=['H100']\ndriver='525.60.13'\n")
    )
    assert "note: " in machine.envspec("lock", spec, status=0).err
    text = (machine.folder / spec).read_text()
    machine.spec(text.replace("'app'", "'app', 'lib'"))
    told = shown(machine, "lock", spec, "--dry-run").screen
    assert "1 note as with the last lock (--verbose lists it)" in told
    assert not [one for one in told if one[:5] == "note:"]
    machine.spec(text.replace("'app'", "'app', 'lib'").replace("525.60.13", "550.54.15"))
    new = shown(machine, "lock", spec, "--dry-run").screen
    assert [one[:5] for one in new if one[:1] != " "] == ["note:"]
    machine.spec(text.replace("'app'", "'app', 'lib'"))
    assert any(one.startswith("note: ") for one in shown(machine, "lock", spec, "--dry-run", "--verbose").screen)
    assert "note: " in machine.envspec("lock", spec, "--dry-run", status=0).err
