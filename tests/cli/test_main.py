"""The program around the commands: help, exit codes, signals, pipes, colours, what is loaded."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import click
import pytest
from cli_project import Envspec, Project
from msgspec.structs import replace
from support.index import Index, hanging
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.terminal import at_terminal

from envspec import __version__
from envspec.base import errors
from envspec.cli import main as program
from envspec.cli.main import COMMANDS, GROUPS, HIDDEN
from envspec.facts.python_builds import newest_build
from envspec.lock.model import LockedPython
from envspec.lock.read import load
from envspec.lock.store import LockFolder
from envspec.packages.conflict import Unsatisfiable

pytest_plugins = ["cli_fixtures"]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-c", "from envspec.cli.main import main; main()"]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "", **more}


def process(*arguments: str, code: str = PROGRAM[2], **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    given: dict[str, object] = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, check=False, timeout=60, **given)  # type: ignore[call-overload, no-any-return]


def test_version(envspec: Envspec) -> None:
    for option in ("--version", "-V"):
        assert envspec(option) == (0, f"envspec {__version__}\n", "")


def test_help_lists_every_command(envspec: Envspec) -> None:
    told = envspec("--help")
    assert (told.code, told.err) == (0, "")
    sections = told.out.partition("\nBegin:")[2].partition("\n  Examples:")[0]
    listed = re.findall(r"^  (\S+) {2,}(.+)$", sections, re.MULTILINE)
    assert listed == list(COMMANDS.items())
    assert re.findall(r"^(\S.*):$", f"Begin:{sections}", re.MULTILINE) == list(GROUPS)
    assert "Exit codes: 0 done, 1 the answer is no, 2" in told.out
    assert envspec("-h") == told


def test_each_command_is_in_one_group() -> None:
    named = [name.replace("-", "_") for name in (*chain(*GROUPS.values()), *HIDDEN)]
    modules = [path for path in Path(program.__file__).parent.rglob("*.py") if "\ndef command(" in path.read_text()]
    assert sorted(named) == sorted(path.parent.name if path.stem == "command" else path.stem for path in modules)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_has_an_example(envspec: Envspec, command: str) -> None:
    told = envspec(command, "--help")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"Usage: envspec {command} ")
    examples = told.out.partition("\n  Example")[2]
    assert f"envspec {command} " in examples
    assert not COMMANDS[command].endswith("."), "STYLE.md: a command's line of help has no full stop"


def test_without_a_command(envspec: Envspec) -> None:
    told = envspec()
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("Usage: envspec")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["chek"], "unknown command 'chek'", "did you mean `envspec check`?"),
        (["frobnicate"], "unknown command 'frobnicate'", "`envspec --help` lists the commands"),
        (["check", "--jsn"], "no such option", "`envspec check --help` shows its usage"),
        (["why", "specs/x.toml"], "missing argument 'PKG'", "`envspec why --help` shows its usage"),
        (["why", "a", "b", "c"], "got unexpected extra argument (c)", "`envspec why --help` shows its usage"),
    ],
)
def test_misuse(envspec: Envspec, arguments: Sequence[str], error: str, hint: str) -> None:
    told = envspec(*arguments)
    assert (told.code, told.out) == (2, "")
    first, second = told.err.splitlines()
    assert first.startswith(f"error: {error}")
    assert second == f"hint: {hint}"


def failing(error: BaseException) -> click.Command:
    def fail() -> None:
        raise error

    return click.Command("check", callback=fail)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Unsatisfiable("no versions"), 1, "error: no versions\n"),
        (
            errors.SpecError("bad", hint="good", place=errors.Place("a.toml", 2, 3)),
            2,
            "error: a.toml:2:3: bad\nhint: good\n",
        ),
        (
            errors.SpecErrors([errors.SpecError("one", hint="first"), errors.SpecError("two")]),
            2,
            "error: one\nhint: first\nerror: two\n",
        ),
        (
            errors.IndexFailure("no answer from https://me:secret@host/simple"),
            3,
            "error: no answer from https://host/simple\n",
        ),
        (errors.InternalError("oops"), 3, "error: oops\n"),
        (KeyboardInterrupt(), 130, "interrupted: nothing was changed\n"),
        (click.exceptions.Abort(), 130, "interrupted: nothing was changed\n"),
        (
            ZeroDivisionError("division by zero at https://me:secret@host/"),
            3,
            "error: envspec has a fault: ZeroDivisionError: division by zero at https://host/\n"
            "hint: please report this; with ENVSPEC_TRACEBACK=1 envspec shows where it happened\n",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_exit_codes(
    envspec: Envspec, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, told: str
) -> None:
    monkeypatch.delenv("ENVSPEC_TRACEBACK", raising=False)
    monkeypatch.setattr(program.Commands, "get_command", lambda self, ctx, name: failing(error))
    ended = envspec("check")
    # click ends the line of a terminal's ^C
    assert (ended.code, ended.out, ended.err.removeprefix("\n")) == (code, "", told)


def test_traceback_on_request(envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVSPEC_TRACEBACK", "1")
    error = ZeroDivisionError("division by zero at https://me:secret@host/")
    monkeypatch.setattr(program.Commands, "get_command", lambda self, ctx, name: failing(error))
    ended = envspec("check")
    assert ended.code == 1 and ended.err.startswith("Traceback")
    assert ended.err.endswith("ZeroDivisionError: division by zero at https://host/\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", first_by_day(1, [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_interrupted(machine: Machine, index: Index, number: signal.Signals) -> None:
    index.fail("/simple/", hanging)
    path = machine.spec(cpu("app"))
    with machine.start("lock", path) as running:
        index.wait_for("/simple/app")
        started = time.monotonic()
        running.send_signal(number)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted: nothing was changed"
    assert "Traceback" not in err
    assert time.monotonic() - started < 10
    assert machine.files() == {}


_DROPPED = """
import signal, sys, time, weakref
from envspec.cli import main as program
class Thing: pass
def command(*arguments, **options):
    thing = Thing()
    seen = weakref.ref(thing, lambda gone: signal.raise_signal(signal.SIGINT))
    del thing
    time.sleep(20)
program.cli.main = command
program.main(["check"])
"""


def test_an_interruption_that_python_drops_comes_again() -> None:
    """A signal in the callback of a weak reference: Python prints it as an ignored exception, and goes on."""
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", _DROPPED], capture_output=True, text=True, timeout=30)
    assert (ran.returncode, ran.stderr) == (130, "interrupted: nothing was changed\n")
    assert time.monotonic() - began < 15


_BEFORE_A_WAIT = """
import signal, threading
from envspec.cli import main as program
def command(*arguments, **options):
    # the system hands the signal to another thread, so that the wait of this one goes on
    receive = lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Timer(0.2, receive).start()
    never = threading.Lock()
    never.acquire()
    never.acquire()
program.cli.main = command
program.main(["check"])
"""


def test_a_signal_that_no_wait_sees_is_seen() -> None:
    began = time.monotonic()
    ran = process(code=_BEFORE_A_WAIT)
    assert (ran.returncode, ran.stderr) == (130, "interrupted: nothing was changed\n")
    assert time.monotonic() - began < 15


_LAST_STEPS = """
import atexit, os, signal, sys
from envspec.cli import main as program
atexit.register(os.kill, os.getpid(), signal.SIGINT)
program.run = lambda argv: 7
program.main()
"""


def test_a_signal_after_the_answer_shows_nothing_of_python() -> None:
    ran = process(code=_LAST_STEPS)
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")


def test_silenced_streams_leave_no_descriptor_open() -> None:
    code = (
        "import os, sys; from envspec.cli.console import silence\n"
        "before = os.listdir('/proc/self/fd') if os.path.isdir('/proc/self/fd') else []\n"
        "for _ in range(3): silence(sys.stdout)\n"
        "after = os.listdir('/proc/self/fd') if before else []\n"
        "sys.exit(len(after) - len(before))"
    )
    assert process(code=code).returncode == 0


def test_nohup_is_respected() -> None:
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "import os, envspec.cli.main as program\n"
        "program.run = lambda argv: os.kill(os.getpid(), signal.SIGHUP) or 7\n"
        "program.main()"
    )
    assert process(code=code).returncode == 7


@pytest.mark.slow
def test_a_reader_that_goes_away(project: Project) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ran = process("tree", "specs/demo.toml", stdout=writing)
    os.close(writing)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
def test_nobody_hears(project: Project) -> None:
    """stderr closed at the other end, and stdout not there at all."""
    reading, writing = os.pipe()
    os.close(reading)
    assert process("check", "specs/missing.toml", stderr=writing).returncode == 2
    os.close(writing)
    closed = "import os; os.close(1); os.close(2); os.execv(__import__('sys').executable, {!r})"
    command = [sys.executable, "-c", PROGRAM[2], "check"]
    assert process(code=closed.format(command)).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_no_room_for_the_output(project: Project) -> None:
    with open("/dev/full", "w") as full:
        ran = process("tree", "specs/demo.toml", stdout=full)
    assert (ran.returncode, ran.stderr) == (3, "error: the output can't be written: No space left on device\n")


def on_terminal(*arguments: str, **more: str) -> str:
    """What a command writes to stderr when that is a terminal."""
    return at_terminal([*PROGRAM, *arguments], env=environment(**more)).told.decode()


@pytest.mark.slow
def test_colour_is_for_terminals_without_no_color() -> None:
    assert "\x1b[31m" in on_terminal("frobnicate")
    assert "\x1b" not in on_terminal("frobnicate", NO_COLOR="1")
    assert "\x1b" not in process("frobnicate").stderr


@pytest.mark.slow
def test_output_in_a_locale_of_plain_ascii(project: Project) -> None:
    env = environment(LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    ran = process("check", "specs/d\u00e9mo.toml", env=env)
    assert ran.returncode == 2
    assert "error: specs/d" in ran.stderr and "Traceback" not in ran.stderr


HEAVY = {
    "asyncio",
    "email",
    "envspec.resolve",
    "http.client",
    "importlib.metadata",
    "jsonschema",
    "rattler",
    "rich",
    "socket",
    "tomlkit",
    "urllib.request",
    "urllib3",
}
LISTED = "\nimport sys\nprint('\\n'.join(sys.modules), file=sys.stderr)"


@pytest.mark.parametrize(
    ("arguments", "more"),
    first_by_day(
        1,
        [
            (["--help"], {"packaging", "tomli", "envspec.lock", "envspec.spec", "envspec.facts.gpus", "json"}),
            (["--version"], {"packaging", "tomli", "envspec.lock", "envspec.spec", "envspec.facts.gpus", "json"}),
            # prints paths of a lock, and judges nothing
            (
                ["why", "specs/demo.toml", "fsspec"],
                {"zipfile", "hashlib", "envspec.facts", "envspec.lock.judge", "envspec.lock.freshness"},
            ),
            # a lock is judged whenever it is read: by its graph and by what the tables say of its GPUs
            (["check"], set()),
            (["check", "--help"], set()),
            # a lock's pins are judged by what was read of their wheels
            (["doctor", "specs/demo.toml", "--gpu", "H100"], set()),
            # a spec without a lock loads nothing that reads or judges locks
            (
                ["doctor", "specs/demo.toml", "--gpu", "H100", "--locks-dir", "none"],
                {"zipfile", "envspec.binaries.wheel", "envspec.lock.judge", "envspec.rules.pins"},
            ),
            (["tree", "specs/demo.toml"], set()),
            (["export", "specs/demo.toml", "-t", "cpu", "-f", "requirements"], set()),
            (["completion", "bash"], set()),
        ],
    ),
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_loaded(project: Project, arguments: Sequence[str], more: set[str]) -> None:
    lock = load(project.lock_path)
    build = newest_build("3.12", "linux-64", None, "")
    assert build is not None
    python = LockedPython(build.platform, build.version, build.build, build.file, build.sha256)
    LockFolder(project.folder / "locks", "demo").write(replace(lock, pythons=(python,)))
    code = "import sys\nfrom envspec.cli.main import run\nsys.exitcode = run(sys.argv[1:])" + LISTED
    ran = process(*arguments, code=code)
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stderr.split())
    assert "envspec.cli.main" in loaded
    assert loaded.isdisjoint(HEAVY | more), sorted(loaded & (HEAVY | more))


@pytest.mark.slow
def test_every_command_is_there_without_what_extras_bring() -> None:
    extras = ["rattler", "yaml", "zstandard", "zlib_ng", "cyclonedx", "pypi_attestations"]
    code = f"import sys\nsys.modules.update(dict.fromkeys({extras}))\nfrom envspec.cli.main import *\n"
    ran = process(code=f"{code}for name in (*COMMANDS, *HIDDEN):\n    cli.get_command(None, name)")
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("words", "at_work"),
    [
        (["install", "demo", "--prefix", "p"], "envspec.cli.install.install"),
        (["bundle", "demo", "-o", "b.tar"], "envspec.cli.bundle.make_bundle"),
        (["link", "demo"], "envspec.cli.link.link"),
    ],
)
def test_an_interruption_is_a_failure_as_any_other(
    envspec: Envspec, monkeypatch: pytest.MonkeyPatch, words: list[str], at_work: str
) -> None:
    def work(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(at_work, work)
    told = envspec(*words, "--json")
    message = "interrupted: run the same command again to continue"
    assert (told.code, told.err.strip()) == (130, message)
    assert [one["message"] for one in json.loads(told.out)["errors"]] == [message]
