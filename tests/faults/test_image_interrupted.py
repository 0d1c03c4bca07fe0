"""Ctrl-C, a kill and a full disk while an image is made: an older image stays whole, and the next run finishes."""

import json
import os
import signal
from functools import cache
from pathlib import Path

import pytest
from support.at_event import signal_at
from support.base_image import system, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist, wheel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

OLD = wheel("lib", "1.0")
RENAMES_A_BLOB = "event == 'os.rename' and str(args[0])[0] == '.' and str(args[0]).endswith('.part')"
"""Of a blob, all is written and nothing is in its place."""


@cache
def new() -> Dist:
    return wheel("lib", "2.0", padding=60 << 20)


@pytest.fixture
def old(machine: Machine, index: Index) -> Path:
    """The layout of an older image, and a lock with a package that takes a while to pack."""
    write_base(machine.folder / "base", system(PYTHON))
    index.add(OLD, new())
    write_lock(machine, [pip_pin(OLD)], platform="linux-64")
    assert machine.envspec("image", SPEC, "--base", "./base", "-o", "out").status == 0
    write_lock(machine, [pip_pin(new())], platform="linux-64")
    return machine.folder / "out"


def whole(layout: Path) -> str:
    """The digest of a layout's image, all of whose blobs are there."""
    (top,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    blobs = layout / "blobs" / "sha256"
    manifest = json.loads((blobs / top["digest"][7:]).read_bytes())
    for row in (manifest["config"], *manifest["layers"]):
        assert (blobs / row["digest"][7:]).stat().st_size == row["size"]
    return str(top["digest"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("to", ["out.tar", pytest.param("out", marks=pytest.mark.nightly)])
def test_what_is_stopped_leaves_the_older_image(number: signal.Signals, to: str, old: Path, machine: Machine) -> None:
    before = whole(old)
    stop = signal_at(machine.base / "hook", 1, signal.SIGSTOP, RENAMES_A_BLOB)
    process = machine.start("image", SPEC, "--base", "./base", "-o", to, env=stop)
    stopped = os.waitpid(process.pid, os.WUNTRACED)[1]
    assert os.WIFSTOPPED(stopped), stopped
    assert list(machine.base.rglob("blobs/sha256/.*.part"))
    process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    process.wait(30)
    assert whole(old) == before and not (machine.folder / "out.tar").exists()
    if number != signal.SIGKILL:
        assert process.returncode == 130
        assert not list(machine.folder.rglob("*.part"))
    assert machine.envspec("image", SPEC, "--base", "./base", "-o", "out").status == 0
    assert whole(old) != before and not list(old.rglob("*.part"))
