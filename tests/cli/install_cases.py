"""What the tests of `envspec install` share: a project whose environment is made, and what is looked at in it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_archives import Channel, borrowed_python, data_package, python_module
from support.index import Index
from support.installs import SUBDIR, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.lock.model import Pin

APP, APP2, LIB = wheel("app", "1.0", "lib"), wheel("app", "2.0"), wheel("lib", "1.0")


PYTHON_PACKAGE = borrowed_python(SUBDIR)


ALPHA, ALPHA2 = python_module("alpha", "1.0"), python_module("alpha", "2.0")


TOOL = data_package("tool", "1.0")


CUDA_BUILD = data_package("accel", "2.7.1", "for CUDA\n", build="cuda126_h1_300", depends=["__cuda"])


CPU_BUILD = data_package("accel", "2.7.1", "for CPUs\n", build="cpu_h1_0")


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel(tmp_path / "own").add(PYTHON_PACKAGE, ALPHA, ALPHA2, TOOL, CUDA_BUILD, CPU_BUILD)


def python(prefix: Path, code: str) -> str:
    """What a program says that runs in the environment."""
    command = [str(prefix / "bin" / "python"), "-c", code]
    env = {"PATH": os.defpath, "HOME": str(prefix)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.strip()


def pip_check(prefix: Path) -> str:
    command = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "check"]
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env).stdout.strip()


def changed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> set[str]:
    """The paths that came, went or were written, without what every run writes down."""
    paths = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return {
        path for path in paths if not path.startswith("etc/envspec/") and path not in (".lock", "conda-meta/history")
    }


# conda packages


@pytest.fixture
def mixed(machine: Machine, index: Index, channel: Channel) -> list[Pin]:
    """A lock with a Python and packages from conda, and one from pip."""
    index.add(APP, LIB)
    needy = replace(channel.pin(CUDA_BUILD), dependencies=(TOOL.name,))
    pins = [channel.pin(PYTHON_PACKAGE), channel.pin(ALPHA), channel.pin(TOOL, direct=False), needy]
    pins += [pip_pin(APP), pip_pin(LIB)]
    write_lock(machine, pins, channels=[channel.url])
    return pins
