"""`envspec install` of packages as they are published."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from install_cases import (
    ALPHA,
    APP,
    LIB,
    channel as channel,
    pip_check,
    python,
)
from support.conda_archives import Channel, relocated_python
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, Install, install as install, pip_pin, prefix as prefix, write_lock
from support.machine import Machine

pytestmark = pytest.mark.e2e


# the real thing


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Machine]:
    """A machine that reaches the network as this one does."""
    names = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "PIP_FIND_LINKS", "UV_FIND_LINKS", "PIP_CONFIG_FILE")
    kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or "CERT" in name}
    kept |= {name: os.environ[name] for name in names if name in os.environ}
    machine = Machine(tmp_path / "machine", variables=kept)
    yield machine
    machine.close()


@pytest.mark.nightly
def test_cpython_as_a_conda_package(
    machine: Machine, index: Index, channel: Channel, prefix: Path, install: Install
) -> None:
    """This machine's CPython, packed, runs out of the prefix without the machine's own."""
    own = relocated_python(SUBDIR)
    channel.add(own)
    index.add(APP, LIB)
    write_lock(machine, [channel.pin(own), channel.pin(ALPHA), pip_pin(APP), pip_pin(LIB)], channels=[channel.url])
    install()
    told = python(prefix, "import sys, json, ssl, app, alpha; print(sys.base_prefix, json.__file__)")
    assert told == f"{prefix} {prefix}/lib/python{PYTHON}/json/__init__.py"
    assert pip_check(prefix) == "No broken requirements found."
    assert "nothing to do" in install().out


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.nightly
def test_real_pip_packages_in_a_conda_prefix(real: Machine, channel: Channel) -> None:
    own = relocated_python(SUBDIR)
    channel.add(own)
    real.spec(
        f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['packaging', 'rich']\n"
        f"[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.28'\n"
    )
    pins = [pin for target in real.locked() for pin in target.pins]
    write_lock(real, [channel.pin(own), channel.pin(ALPHA), *pins], channels=[channel.url], glibc="2.28")
    prefix = real.folder / "env"
    real.envspec("install", SPEC, "--prefix", str(prefix), seconds=300, status=0)
    assert python(prefix, "import alpha, rich, packaging; print(rich.__file__)").startswith(str(prefix))
    assert pip_check(prefix) == "No broken requirements found."


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.nightly
def test_the_shipped_cpu_lock(real: Machine, root: Path) -> None:
    """locks/cpu-py311 as it is committed: PyTorch installs from it, and computes."""
    if SUBDIR != "linux-64":
        pytest.skip("cpu-py311 is for linux-64")
    prefix = real.folder / "env"
    arguments = ["install", str(root / "specs/cpu-py311.toml"), "--prefix", str(prefix)]
    real.envspec(*arguments, seconds=900, status=0)
    assert python(prefix, "import torch; print(torch.ones(3).sum().item(), torch.version.cuda)") == "3.0 None"
    assert pip_check(prefix) == "No broken requirements found."
    assert "nothing to do" in real.envspec(*arguments).out
