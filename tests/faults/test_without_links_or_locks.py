"""A home on a file system that has no links or no locks (FAT, some FUSE and NFS): everything works there, or says what
it misses."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine, cpu
from support.packages import wheel

pytestmark = pytest.mark.e2e


def refusing(number: int) -> Callable[..., None]:
    def refused(*arguments: object, **named: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


@pytest.fixture(
    params=["flock-ENOLCK", "flock-EOPNOTSUPP", "symlink-EPERM", "link-EPERM", "link-EOPNOTSUPP", "chmod-EPERM"]
)
def poor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, number = request.param.split("-")
    monkeypatch.setattr(fcntl if name == "flock" else os, name, refusing(getattr(errno, number)))
    return str(name)


@pytest.mark.slow
@pytest.mark.by_day(1)
def test_all_commands_work(poor: str, machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(wheel("alpha", "1.0"), wheel("beta", "1.0"))
    machine.spec(cpu("alpha").replace("3.12", PYTHON))
    for command in (
        "lock specs/demo.toml", "check", "add specs/demo.toml beta", "export specs/demo.toml --format all -o out",
        "verify specs/demo.toml", "install specs/demo.toml --prefix made", "bundle specs/demo.toml -o b.tar",
        "report specs/demo.toml -o r.html", "cache size", "cache prune --older-than 1d", "cache clean",
        "git-setup --global",
    ):  # fmt: skip
        ran = machine.envspec(*command.split(), seconds=120)
        assert ran.status in (0, 3), (command, ran)
        assert ran.status == 0 or (os.strerror(errno.EPERM) in ran.error and ran.hint), (command, ran)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("to", ["out", "out.tar"])
def test_an_image_is_made(to: str, poor: str, machine: Machine, index: Index) -> None:
    lib = wheel("lib", "1.0")
    index.add(lib)
    write_base(machine.folder / "base", system(PYTHON))
    write_lock(machine, [pip_pin(lib)], platform="linux-64")
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", to)
    assert ran.status == 0 and (machine.folder / to).exists(), ran
