"""What `envspec run` is tried with: a lock of one small wheel, runs in processes of their own, and plans."""

from typing import Any

import pytest
from support.documents import valid
from support.index import Index
from support.installs import pip_pin, write_lock
from support.machine import Machine, Ran
from support.packages import wheel

APP, APP2 = wheel("app", "1.0"), wheel("app", "2.0")
PRINT = "import app, sys; print(app.version, sys.prefix)"


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    index.add(APP, APP2)
    write_lock(machine, [pip_pin(APP)])
    return machine


def ran(machine: Machine, *arguments: str, status: int = 0, env: dict[str, str] | None = None) -> Ran:
    """A run in a process of its own, which becomes the command."""
    return machine.envspec("run", *arguments, env=env, spawn=True, status=status)


def planned(machine: Machine, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """What a run would do."""
    found = machine.envspec("run", "--dry-run", "--json", *arguments, "--", "python", env=env, status=0)
    document: dict[str, Any] = valid(found.out, "run")
    return document


def refused(machine: Machine, *arguments: str) -> Ran:
    return machine.envspec("run", "--dry-run", *arguments, "--", "python", status=2)
