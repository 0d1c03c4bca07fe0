"""Escape sequences and bidi controls in an index's or a lock's texts steer no terminal, page or comment."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_archives import PYTHON
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import wheel
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
            replace(
                pin,
                licence=f"MIT {EVIL}",
                dependencies=tuple(edge for _ in pin.dependencies),
            )
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
@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "arguments", first_by_day(4, map(pytest.param, SHOWN)), ids=lambda arguments: " ".join(arguments)
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


def test_in_what_report_writes(hostile: Machine) -> None:
    ran = hostile.envspec("report", "specs/demo.toml", "-o", "report.html")
    text = Path(hostile.folder, "report.html").read_text("utf-8") if ran.status == 0 else ran.err
    assert ran.status in (0, 2) and steering(text) == ""
