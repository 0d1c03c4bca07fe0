"""`envspec install` of locks with conda packages, alone and beside pip's."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.conda_archives import Channel, borrowed_python, data_package, python_module, relocated_python
from support.index import Index
from support.installs import (
    PYTHON,
    SPEC,
    SUBDIR,
    Install,
    changed,
    install as install,
    pip_check,
    pip_pin,
    prefix as prefix,
    python,
    tree,
    write_lock,
)
from support.machine import Machine
from support.matrix import first_by_day
from support.packages import wheel
from support.terminal import at_terminal

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


@pytest.fixture
def mixed(machine: Machine, index: Index, channel: Channel) -> list[Pin]:
    """A lock with a Python and packages from conda, and one from pip."""
    index.add(APP, LIB)
    needy = replace(channel.pin(CUDA_BUILD), dependencies=(TOOL.name,))
    pins = [channel.pin(PYTHON_PACKAGE), channel.pin(ALPHA), channel.pin(TOOL, direct=False), needy]
    pins += [pip_pin(APP), pip_pin(LIB)]
    write_lock(machine, pins, channels=[channel.url])
    return pins


@pytest.mark.e2e
@pytest.mark.slow
def test_a_dry_run_does_nothing(
    machine: Machine, index: Index, mixed: list[Pin], channel: Channel, prefix: Path, install: Install
) -> None:
    first = install("--dry-run")
    assert "+ pip   app 1.0" in first.out
    assert first.out.splitlines()[-1] == f"{prefix} would be installed: here, 6 packages"
    assert not prefix.exists() and index.asked == []
    install()
    before = tree(prefix)
    write_lock(machine, mixed[:-1], channels=[channel.url])
    assert install("--dry-run").out.splitlines() == ["- pip   lib 1.0", f"{prefix} would be updated: here, 5 packages"]
    assert tree(prefix) == before


@pytest.mark.e2e
@pytest.mark.slow
def test_progress_on_a_terminal(machine: Machine, index: Index, channel: Channel, prefix: Path) -> None:
    index.add(APP)
    write_lock(machine, [channel.pin(TOOL), pip_pin(APP)], channels=[channel.url])
    command = [sys.executable, "-m", "envspec", "install", SPEC, "--prefix", str(prefix)]
    at = at_terminal(command, cwd=machine.folder, env=machine.environment({"TERM": "xterm", "COLUMNS": "200"}))
    assert at.status == 0, at.told
    assert b"conda packages" in at.told and b"pip: 1 wheel" in at.told
    assert b"\x1b" not in at.out and at.out.endswith(b"2 packages\n")


def conda_records(prefix: Path) -> dict[str, dict[str, Any]]:
    """The records of a prefix as rattler reads them back; in a process of its own, for its threads outlive it."""
    code = """
import json, sys
from pathlib import Path
from rattler import PrefixRecord
found = {}
for path in Path(sys.argv[1]).glob("*.json"):
    r = PrefixRecord.from_path(path)
    found[r.name.normalized] = {"version": str(r.version), "build": str(r.build), "url": r.url, "channel": r.channel,
        "files": sorted(map(str, r.files)), "noarch": r.noarch is not None, "timestamp": r.timestamp is not None,
        "constrains": r.constrains, "requested": r.requested_specs, "sha256": r.sha256.hex(), "number": r.build_number}
print(json.dumps(found), flush=True)
import os
os._exit(0)
"""
    command = [sys.executable, "-c", code, str(prefix / "conda-meta")]
    found: dict[str, dict[str, Any]] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


@pytest.mark.e2e
@pytest.mark.slow
def test_a_conda_environment(mixed: list[Pin], channel: Channel, prefix: Path, install: Install) -> None:
    ran = install()
    assert "+ conda accel 2.7.1 cuda126_h1_300" in ran.out
    told = python(prefix, "import sys, alpha, app; print(alpha.version, app.version, sys.prefix)")
    assert told == f"1.0 1.0 {prefix}"
    assert (prefix / "share/accel.txt").read_text() == "for CUDA\n"
    assert pip_check(prefix) == "No broken requirements found."
    records = conda_records(prefix)
    assert {name: (r["version"], r["build"], r["sha256"]) for name, r in records.items()} == {
        p.name: (p.version, p.build, p.artifact.sha256 if p.artifact else "") for p in mixed if p.kind == "conda"
    }
    alpha = records["alpha"]
    assert alpha["url"] == f"{channel.url}/noarch/{ALPHA.file}" and alpha["channel"].rstrip("/") == channel.url
    assert alpha["noarch"] and alpha["timestamp"] and alpha["requested"] == ["alpha ==1.0"]
    assert f"lib/python{PYTHON}/site-packages/alpha.py" in alpha["files"]
    assert records["tool"]["requested"] == [] and records["accel"]["number"] == 300
    # what makes a folder an environment to conda
    assert (prefix / "conda-meta/history").is_file()


@pytest.mark.slow
@pytest.mark.e2e
def test_a_conda_environment_again(mixed: list[Pin], prefix: Path, install: Install) -> None:
    install()
    before = tree(prefix)
    assert install().out == f"{prefix} is here already: nothing to do\n"
    assert tree(prefix) == before


@pytest.mark.e2e
@pytest.mark.slow
def test_a_conda_update(machine: Machine, mixed: list[Pin], channel: Channel, prefix: Path, install: Install) -> None:
    install()
    before = tree(prefix)
    pins = [channel.pin(PYTHON_PACKAGE), channel.pin(ALPHA2), channel.pin(CPU_BUILD), *mixed[4:]]
    write_lock(machine, pins, channels=[channel.url])
    assert install().out.splitlines()[:-1] == [
        "~ conda accel 2.7.1 cuda126_h1_300 → 2.7.1 cpu_h1_0",
        "~ conda alpha 1.0 py_0 → 2.0 py_0",
        "- conda tool 1.0 0",
    ]
    assert python(prefix, "import alpha, app; print(alpha.version, app.version)") == "2.0 1.0"
    assert (prefix / "share/accel.txt").read_text() == "for CPUs\n"
    assert {path for path in changed(before, tree(prefix)) if "alpha" not in path} == {
        "conda-meta/accel-2.7.1-cpu_h1_0.json",
        "conda-meta/accel-2.7.1-cuda126_h1_300.json",
        "conda-meta/tool-1.0-0.json",
        "share/accel.txt",
        "share/tool.txt",
    }
    assert "nothing to do" in install().out


@pytest.mark.e2e
@pytest.mark.slow
def test_conda_damage_is_repaired(mixed: list[Pin], prefix: Path, install: Install) -> None:
    install()
    (prefix / "share/tool.txt").unlink()
    (prefix / "conda-meta/accel-2.7.1-cuda126_h1_300.json").write_text('{"name": "acc')
    assert install().out.splitlines()[:-1] == [
        "+ conda accel 2.7.1 cuda126_h1_300",
        "! conda tool 1.0 0 (share/tool.txt is missing)",
    ]
    assert (prefix / "share/tool.txt").read_text() == "tool 1.0\n"
    assert "nothing to do" in install().out


@pytest.mark.e2e
@pytest.mark.slow
def test_a_package_moves_between_conda_and_pip(
    machine: Machine, index: Index, mixed: list[Pin], channel: Channel, prefix: Path, install: Install
) -> None:
    install()
    alpha = wheel("alpha", "5.0")
    index.add(alpha)
    write_lock(machine, [mixed[0], pip_pin(alpha)], channels=[channel.url])
    assert "- conda alpha 1.0 py_0" in install().out
    assert python(prefix, "import alpha; print(alpha.version)") == "5.0"
    write_lock(machine, mixed, channels=[channel.url])
    assert "- pip   alpha 5.0" in install().out
    assert python(prefix, "import alpha; print(alpha.version)") == "1.0"
    assert pip_check(prefix) == "No broken requirements found."


@pytest.mark.e2e
def test_a_rebuilt_conda_package(machine: Machine, channel: Channel, prefix: Path, install: Install) -> None:
    """The same version and build, another file."""
    pins = [channel.pin(TOOL), channel.pin(PYTHON_PACKAGE)]
    write_lock(machine, pins, channels=[channel.url])
    install()
    channel.add(data_package("tool", "1.0", "rebuilt\n"))
    # what is linked already isn't asked for again
    channel.path(PYTHON_PACKAGE).unlink()
    shutil.rmtree(machine.cache / "conda")
    write_lock(machine, [channel.pin(TOOL), pins[1]], channels=[channel.url])
    assert install().out.splitlines()[0] == "~ conda tool 1.0 0 (another file)"
    assert (prefix / "share/tool.txt").read_text() == "rebuilt\n"
    assert "nothing to do" in install().out


@pytest.mark.e2e
@pytest.mark.slow
def test_a_python_moves_between_this_machine_and_conda(
    machine: Machine, index: Index, mixed: list[Pin], channel: Channel, prefix: Path, install: Install
) -> None:
    own = [pip_pin(APP), pip_pin(LIB)]
    write_lock(machine, own)
    install()
    (prefix / "pyvenv.cfg").write_text((prefix / "pyvenv.cfg").read_text() + "prompt = of-the-machine\n")
    write_lock(machine, mixed, channels=[channel.url])
    install()
    assert "of-the-machine" not in (prefix / "pyvenv.cfg").read_text()
    assert python(prefix, "import alpha, app; print(alpha.version, app.version)") == "1.0 1.0"
    write_lock(machine, own)
    assert "- conda python" in install().out
    assert python(prefix, "import app; print(app.version)") == "1.0"
    assert not list((prefix / "conda-meta").glob("*.json"))
    assert "nothing to do" in install().out


@pytest.mark.e2e
@pytest.mark.slow
def test_the_activated_environment(mixed: list[Pin], prefix: Path, install: Install) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash isn't installed")
    install()
    script = f". {prefix}/bin/activate; command -v python; echo $CONDA_PREFIX $CONDA_DEFAULT_ENV $PYTHONNOUSERSITE"
    told = subprocess.run(["bash", "--norc", "-euc", script], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [f"{prefix}/bin/python", f"{prefix} demo 1"]


@pytest.mark.e2e
@pytest.mark.parametrize("name", first_by_day(1, ["with space", "quo'te", "dollar$sign"]))
def test_a_prefix_with_odd_characters(name: str, mixed: list[Pin], machine: Machine) -> None:
    prefix = machine.folder / name
    machine.envspec("install", SPEC, "--prefix", name, status=0)
    assert python(prefix, "import alpha, app; print(app.version)") == "1.0"
    assert "nothing to do" in machine.envspec("install", SPEC, "--prefix", name).out


@pytest.mark.e2e
@pytest.mark.slow
def test_conda_without_a_python(machine: Machine, channel: Channel, prefix: Path, install: Install) -> None:
    """Programs alone from conda, Python from this machine."""
    write_lock(machine, [channel.pin(TOOL)], channels=[channel.url])
    install()
    assert (prefix / "share/tool.txt").is_file()
    assert python(prefix, "import sys; print(sys.prefix)") == str(prefix)


@pytest.mark.e2e
@pytest.mark.slow
def test_from_a_spec_to_an_environment(machine: Machine, index: Index, channel: Channel, prefix: Path) -> None:
    """Solved, locked and installed: the CUDA build for the CUDA target, the CPU build for the other."""
    channel.add(python_module("pip", "25.0"))
    index.add(wheel("app", "1.0", "alpha>=1"))
    machine.locked(
        spec=f"[env]\npython = '{PYTHON}'\n[pip]\ndependencies = ['app']\n"
        f"[conda]\nchannels = ['{channel.url}']\ndependencies = ['alpha <2', 'accel']\n"
        f"[targets.cpu]\nplatform = '{SUBDIR}'\n"
        f"[targets.gpu]\nplatform = '{SUBDIR}'\ncuda = '12.6'\ngpus = ['H100']\n"
    )
    for target, text in (("gpu", "for CUDA\n"), ("cpu", "for CPUs\n")):
        machine.envspec("install", SPEC, "--target", target, "--prefix", str(prefix), status=0)
        assert (prefix / "share/accel.txt").read_text() == text
        assert python(prefix, "import alpha, app; print(alpha.version, app.version)") == "1.0 1.0"
        assert pip_check(prefix) == "No broken requirements found."


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Machine]:
    """A machine that reaches the network as this one does."""
    names = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "PIP_FIND_LINKS", "UV_FIND_LINKS", "PIP_CONFIG_FILE")
    kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") or "CERT" in name}
    kept |= {name: os.environ[name] for name in names if name in os.environ}
    machine = Machine(tmp_path / "machine", variables=kept)
    yield machine
    machine.close()


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
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


@pytest.mark.e2e
@pytest.mark.slow
def test_offline_takes_what_was_fetched(
    machine: Machine, index: Index, channel: Channel, prefix: Path, install: Install
) -> None:
    index.add(APP)
    write_lock(machine, [channel.pin(TOOL), pip_pin(APP)], channels=[channel.url])
    assert install("--offline", status=3).error
    install()
    shutil.rmtree(prefix)
    index.asked.clear()
    shutil.rmtree(channel.folder)
    install("--offline")
    assert index.asked == []
    assert python(prefix, "import app; print(app.version)") == "1.0"
