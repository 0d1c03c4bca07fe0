"""What `lock` and `export` write, read by those it's for: pip, uv and pip-tools install it from a real index."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Answer, Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.resolve.uv.program import find_uv

pytestmark = pytest.mark.e2e

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SUBDIRS = {("Linux", "x86_64"): "linux-64", ("Linux", "aarch64"): "linux-aarch64", ("Darwin", "arm64"): "osx-arm64"}
TARGETS = f'[targets.here]\nplatform = "{SUBDIRS[platform.system(), platform.machine()]}"\n'

APP = wheel("app", "1.4", "lib[fast]>=2")
LIB = wheel("lib", "2.5", "speedup>=1; extra == 'fast'", extras=["fast"])
SPEEDUP = wheel("speedup", "1.1")


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    """A machine of this platform and Python, with a lock of three packages."""
    index.add(APP, LIB, SPEEDUP)
    machine.locked(spec=cpu("app", targets=TARGETS, python=PYTHON))
    return machine


@pytest.fixture
def environment(locked: Machine) -> Path:
    """An empty virtual environment."""
    folder = locked.base / "environment"
    tool(locked, find_uv(os.environ).executable, "venv", "--quiet", "--python", sys.executable, str(folder))
    return folder


def tool(machine: Machine, *command: str, env: Mapping[str, str] | None = None, status: int = 0) -> str:
    """Run a program as the machine's user, to whom the loopback index is PyPI also for pip. Gives what it says."""
    variables = {
        "PIP_INDEX_URL": machine.default or "",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }
    ran = subprocess.run(
        command,
        cwd=machine.folder,
        env=machine.environment({**variables, **(env or {})}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode != 0) == (status != 0), ran.stdout
    return ran.stdout


def another_wheel(handler: object, answer: Answer) -> Answer:
    """A wheel that is whole, and isn't the one that was locked."""
    return replace(answer, body=wheel("lib", "2.5", padding=10).content)


def uv(machine: Machine, environment: Path, *arguments: str, status: int = 0) -> str:
    where = ["--python", str(environment / "bin" / "python")]
    return tool(machine, find_uv(os.environ).executable, "pip", *arguments, *where, status=status)


def installed(machine: Machine, environment: Path) -> dict[str, str]:
    listed = json.loads(uv(machine, environment, "list", "--format", "json", "--quiet"))
    return {one["name"]: one["version"] for one in listed}


EVERYTHING = {"app": "1.4", "lib": "2.5", "speedup": "1.1"}


def test_uv_syncs_requirements(locked: Machine, environment: Path) -> None:
    uv(locked, environment, "sync", "--require-hashes", "locks/demo/here/requirements.txt")
    assert installed(locked, environment) == EVERYTHING
    assert "Would make no changes" in uv(locked, environment, "sync", "--dry-run", "locks/demo/here/requirements.txt")


@pytest.mark.slow
def test_pip_installs_requirements_with_hashes(locked: Machine, environment: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    tool(locked, *pip, "install", "--quiet", "--require-hashes", "--no-deps", "-r", "locks/demo/here/requirements.txt")
    assert installed(locked, environment) == EVERYTHING
    assert "No broken requirements" in tool(locked, *pip, "check")
    # Complete: pip, left to look for dependencies, finds nothing that has no hash.
    tool(locked, *pip, "install", "--quiet", "--require-hashes", "-r", "locks/demo/here/requirements.txt")


def test_a_changed_file_is_refused(locked: Machine, index: Index, environment: Path) -> None:
    index.fail(rf"/files/{LIB.file}$", another_wheel)
    told = uv(locked, environment, "sync", "--require-hashes", "locks/demo/here/requirements.txt", status=1)
    assert "mismatch" in told.lower()
    assert installed(locked, environment) == {}


@pytest.mark.slow
def test_pip_tools_accept_requirements(locked: Machine) -> None:
    """`pip-sync --dry-run` reads the file, and would install what it says into the environment it runs in."""
    pytest.importorskip("piptools", reason="pip-tools isn't installed: the extra `interop` brings it")
    # 1 is how it says that there is something to do
    told = tool(
        locked, sys.executable, "-m", "piptools", "sync", "--dry-run", "locks/demo/here/requirements.txt", status=1
    )
    assert "Traceback" not in told
    would = told.partition("Would install:")[2].split()
    assert would == [f"{name}=={version}" for name, version in EVERYTHING.items()], told


def pylock(machine: Machine) -> Path:
    machine.envspec("export", "specs/demo.toml", "--format", "pylock", "-o", "out", status=0)
    return machine.folder / "out" / "here" / "pylock.toml"


def test_uv_installs_a_pylock(locked: Machine, environment: Path) -> None:
    path = pylock(locked)
    would = uv(locked, environment, "install", "--dry-run", "-r", str(path))
    assert all(f"+ {name}=={version}" in would for name, version in EVERYTHING.items())
    assert installed(locked, environment) == {}
    uv(locked, environment, "install", "-r", str(path))
    assert installed(locked, environment) == EVERYTHING


@pytest.mark.slow
def test_uv_needs_no_index_for_a_pylock(locked: Machine, index: Index, environment: Path) -> None:
    path = pylock(locked)
    index.asked.clear()
    uv(locked, environment, "install", "--no-index", "-r", str(path))
    assert installed(locked, environment) == EVERYTHING
    assert index.paths("/simple/") == []


@pytest.mark.slow
def test_uv_refuses_a_changed_file_of_a_pylock(locked: Machine, index: Index, environment: Path) -> None:
    path = pylock(locked)
    index.fail(rf"/files/{LIB.file}$", another_wheel)
    assert "mismatch" in uv(locked, environment, "install", "-r", str(path), status=1).lower()


@pytest.mark.network
def test_the_real_index(tmp_path: Path) -> None:
    """From the real PyPI, by the settings that this machine has: lock, export, and uv takes it."""
    kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or "CERT" in name}
    kept |= {
        name: os.environ[name] for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL") if name in os.environ
    }
    machine = Machine(tmp_path / "machine", variables=kept)
    machine.locked(spec=cpu("packaging==25.0", "tomli", targets=TARGETS, python=PYTHON))
    path = pylock(machine)
    folder = machine.base / "environment"
    tool(machine, find_uv(os.environ).executable, "venv", "--quiet", "--python", sys.executable, str(folder))
    assert "+ packaging==25.0" in uv(machine, folder, "install", "--dry-run", "-r", str(path))
