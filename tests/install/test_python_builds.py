"""A machine without the lock's Python: uv brings one, in a test from a folder that stands for the builds' address."""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.index import Index
from support.installs import SPEC, SUBDIR, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.errors import ToolError
from envspec.install.interpreter import find_interpreter
from envspec.lock.model import Lock, LockedPython
from envspec.lock.store import LockFolder

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(SUBDIR != "linux-64", reason="the stand-in is a build for linux-64"),
]

APP = wheel("app", "1.0")
BUILD = "20240107"
_SYSCONFIG = "# system configuration generated and used by the sysconfig module\nbuild_time_vars = {}\n"


def another_python() -> tuple[str, Path]:
    """A Python of this machine that isn't the one that runs this, and its version."""
    for minor in range(10, 15):
        version = f"3.{minor}"
        if minor != sys.version_info.minor:
            try:
                return version, find_interpreter(version, os.environ)
            except ToolError:
                continue
    pytest.skip("this machine has no second Python")


def build_of(folder: Path, python: str, program: Path) -> LockedPython:
    """A build in a mirror: as its Python, the one of this machine."""
    version = f"{python}.1"
    file = f"cpython-{version}+{BUILD}-x86_64-unknown-linux-gnu-install_only.tar.gz"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        texts = {
            f"bin/python{python}": f'#!/bin/sh\nexec {program} "$@"\n',
            f"lib/python{python}/_sysconfigdata__linux_x86_64-linux-gnu.py": _SYSCONFIG,
        }
        for name, text in texts.items():
            member = tarfile.TarInfo(f"python/{name}")
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    path = folder / BUILD / file
    path.parent.mkdir(parents=True)
    path.write_bytes(content.getvalue())
    return LockedPython(SUBDIR, version, BUILD, file, hashlib.sha256(content.getvalue()).hexdigest())


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


Locked = Callable[[LockedPython], Lock]


@pytest.fixture
def without(machine: Machine, index: Index, mirror: Path) -> tuple[Machine, LockedPython]:
    """A machine that has no Python of the lock's version, and the build in the mirror that the lock names."""
    python, program = another_python()
    index.add(APP)
    lock = write_lock(machine, [pip_pin(APP)], python=python)
    build = build_of(mirror, python, program)
    LockFolder(machine.locks, "demo").write(replace(lock, pythons=(build,)))
    machine.variables |= {"UV_PYTHON_INSTALL_MIRROR": mirror.as_uri(), "UV_PYTHON_DOWNLOADS": "automatic"}
    # the programs of other Pythons may lie there
    machine.variables["PATH"] = str(mirror)
    return machine, build


def test_the_locks_own_build_is_fetched_by_its_hash(without: tuple[Machine, LockedPython]) -> None:
    machine, build = without
    found = machine.envspec("install", SPEC)
    assert found.status == 0, found.err
    brought = machine.home / ".local" / "share" / "uv" / "python" / f"cpython-{build.version}-linux-x86_64-gnu"
    assert brought.is_dir()
    (prefix,) = machine.environments.iterdir()
    assert (prefix / "lib" / f"python{build.version.rpartition('.')[0]}" / "site-packages" / "app.py").is_file()


def test_a_build_of_another_hash_is_refused(without: tuple[Machine, LockedPython], mirror: Path) -> None:
    machine, build = without
    path = mirror / BUILD / build.file
    path.write_bytes(path.read_bytes() + b"\0")
    found = machine.envspec("install", SPEC)
    assert found.status == 3
    assert "uv can't fetch one" in found.error and "Hash mismatch" in found.error
    assert "UV_PYTHON_INSTALL_MIRROR" in found.hint


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--offline"], {}), ([], {"UV_PYTHON_DOWNLOADS": "never"})], ids=["offline", "never"]
)
def test_nothing_is_fetched_unasked(
    without: tuple[Machine, LockedPython], arguments: list[str], variables: dict[str, str]
) -> None:
    machine, build = without
    found = machine.envspec("install", SPEC, *arguments, env=variables)
    assert found.status == 3
    assert f"this machine has no CPython {build.version.rpartition('.')[0]}" in found.error
    assert not (machine.home / ".local" / "share" / "uv").exists()
