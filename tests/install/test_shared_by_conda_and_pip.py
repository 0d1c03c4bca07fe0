"""A path that conda and pip both have: pip's content stands there, and conda's comes back when pip's package goes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.conda_archives import Archive, Channel, borrowed_python, python_module
from support.index import Index
from support.installs import PYTHON, SUBDIR, uv_alone
from support.machine import Machine, Ran
from support.packages import wheel

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

SITE = f"lib/python{PYTHON}/site-packages"
CONDA = Archive(
    "lib-native",
    "1.0",
    files={
        f"{SITE}/native/__init__.py": b"who = 'conda'\n",
        f"{SITE}/native/conda.py": b"",
        "bin/native": b"#!/bin/sh\necho conda\n",
    },
    depends=["python"],
    noarch=None,
    subdir=SUBDIR,
    executable=frozenset({"bin/native"}),
)
WHEEL = wheel(
    "native-tools",
    "1.0",
    files={
        "native/__init__.py": b"who = 'pip'  # and longer\n",
        "native/pip.py": b"",
        "native_tools-1.0.data/scripts/native": b"#!/bin/sh\necho the one of pip\n",
    },
)
SPEC = f"""\
[env]
python = "{PYTHON}"
[pip]
dependencies = {{}}
[conda]
channels = ["{{}}"]
dependencies = ["python", {{}}]
[targets.here]
platform = "{SUBDIR}"
glibc = "2.17"
"""


@pytest.fixture
def install(machine: Machine, index: Index, tmp_path: Path) -> Callable[..., Ran]:
    """Lock and install a spec with `native-tools` from pip and `lib-native` from conda, as asked."""
    channel = Channel(tmp_path / "own").add(borrowed_python(SUBDIR), python_module("pip", "25.0"), CONDA)
    index.add(WHEEL)

    def run(*, pip: bool = True, conda: bool = True) -> Ran:
        asked = (["native-tools"] if pip else [], channel.url, '"lib-native"' if conda else "")
        machine.locked(spec=SPEC.format(*asked).replace(", ]", "]"))
        ran = machine.envspec("install", "specs/demo.toml", "--prefix", "env", status=0)
        again = machine.envspec("install", "specs/demo.toml", "--prefix", "env", status=0)
        assert "already" in again.out
        return ran

    return run


def who(machine: Machine) -> str:
    env = machine.folder / "env"
    module = (env / SITE / "native/__init__.py").read_text().split("'")[1]
    assert subprocess.run([env / "bin/native"], capture_output=True, text=True, check=True).stdout.split()[-1] == module
    return module


def test_pips_content_stands_and_condas_comes_back(install: Callable[..., Ran], machine: Machine) -> None:
    install()
    assert who(machine) == "pip"
    install(pip=False)
    assert who(machine) == "conda"
    assert not (machine.folder / "env" / SITE / "native/pip.py").exists()
    install()
    assert who(machine) == "pip"
    install(conda=False)
    assert who(machine) == "pip"
    assert not (machine.folder / "env" / SITE / "native/conda.py").exists()


@pytest.mark.parametrize("by", ["uv", "pip"])
def test_what_pip_uninstalls_of_both_is_mended(
    install: Callable[..., Ran], machine: Machine, tmp_path: Path, by: str
) -> None:
    install()
    inside = machine.folder / "env/bin/python"
    uv: list[str | Path] = [uv_alone(tmp_path) / "uv", "pip", "uninstall", "--python", inside]
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", inside, "uninstall", "-y"]
    env = {**machine.environment(), "PATH": "/usr/bin:/bin"}
    subprocess.run([*(uv if by == "uv" else pip), "native-tools"], check=True, env=env, capture_output=True)
    assert not (machine.folder / "env/bin/native").exists()
    install()
    assert who(machine) == "pip"
    install(pip=False)
    assert who(machine) == "conda"
