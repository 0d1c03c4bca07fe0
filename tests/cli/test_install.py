"""`envspec install` as a process: from a lock to an environment that runs, and from one lock to the next; conda too."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.conda_archives import Channel, borrowed_python, data_package, python_module, relocated_python
from support.documents import valid
from support.index import Index, hanging
from support.installs import (
    PYTHON,
    SPEC,
    SUBDIR,
    Install,
    install as install,
    pip_pin,
    prefix as prefix,
    serve_lock,
    tree,
    write_lock,
)
from support.machine import Machine
from support.matrix import first_by_day
from support.packages import sdist, source_files, wheel
from support.terminal import at_terminal

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter
from envspec.lock.model import GitSource, Pin
from envspec.resolve.uv.program import find_uv

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


# pip packages alone


@pytest.mark.e2e
def test_a_virtual_environment(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    ran = install()
    assert ran.out.splitlines() == ["+ pip   app 1.0", "+ pip   lib 1.0", f"installed {prefix}: here, 2 packages"]
    assert ran.hint == f"hint: . {prefix}/bin/activate"
    assert python(prefix, "import sys, app; print(app.version, sys.prefix)") == f"1.0 {prefix}"
    assert pip_check(prefix) == "No broken requirements found."
    assert (prefix / "etc/envspec/envspec.lock").read_bytes() == machine.lock_path().read_bytes()
    assert (prefix / "etc/envspec/target").read_text() == "here\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_running_again_changes_nothing(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    install()
    python(prefix, "import app")
    before = tree(prefix)
    index.asked.clear()
    assert install().out == f"{prefix} is here already: nothing to do\n"
    assert tree(prefix) == before
    assert index.asked == []


@pytest.mark.e2e
@pytest.mark.slow
def test_an_update_touches_what_changed(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    extra = wheel("extra", "1.0")
    index.add(APP, APP2, LIB, extra)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB), pip_pin(extra)])
    install()
    before = tree(prefix)
    new = wheel("new", "3.0")
    index.add(new)
    write_lock(machine, [pip_pin(APP2), pip_pin(LIB), pip_pin(new)])
    assert install().out.splitlines() == [
        "~ pip   app 1.0 → 2.0",
        "- pip   extra 1.0",
        "+ pip   new 3.0",
        f"updated {prefix}: here, 3 packages",
    ]
    assert python(prefix, "import app, new; print(app.version, new.version)") == "2.0 3.0"
    names = {
        path.rpartition("site-packages/")[2].split("/")[0].split(".py")[0] for path in changed(before, tree(prefix))
    }
    assert names == {
        "app",
        "app-1.0.dist-info",
        "app-2.0.dist-info",
        "extra",
        "extra-1.0.dist-info",
        "new",
        "new-3.0.dist-info",
    }


@pytest.mark.e2e
@pytest.mark.slow
def test_another_file_of_the_same_version(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP)
    install()
    rebuilt = wheel("app", "1.0", "lib", padding=100)
    serve_lock(machine, index, rebuilt)
    assert install().out.splitlines()[0] == "~ pip   app 1.0 (another file)"
    assert (prefix / f"lib/python{PYTHON}/site-packages/app.bin").is_file()


@pytest.mark.e2e
@pytest.mark.slow
def test_damage_is_repaired(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, LIB)
    install()
    (prefix / f"lib/python{PYTHON}/site-packages/app.py").unlink()
    assert install().out.splitlines()[0] == "! pip   app 1.0 (app.py is missing)"
    assert python(prefix, "import app; print(app.version)") == "1.0"
    (prefix / "bin/activate").write_text("# mine\n")
    assert install().out == f"updated {prefix}: here, 2 packages\n"
    assert "envspec" in (prefix / "bin/activate").read_text()


@pytest.mark.e2e
@pytest.mark.slow
def test_what_somebody_added_goes(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, LIB)
    write_lock(machine, [pip_pin(APP)])
    install()
    uv = find_uv(machine.environment())
    added = ["pip", "install", "--python", str(prefix / "bin/python"), "--default-index", index.url, "lib"]
    assert uv.run(added, cwd=machine.folder).returncode == 0
    assert install().out.splitlines()[0] == "- pip   lib 1.0"
    assert not (prefix / f"lib/python{PYTHON}/site-packages/lib.py").exists()


@pytest.mark.e2e
@pytest.mark.slow
def test_pip_check_is_told(machine: Machine, index: Index, install: Install) -> None:
    serve_lock(machine, index, APP)
    assert "warning: The package `app` requires `lib`" in install().err


@pytest.mark.e2e
@pytest.mark.slow
def test_a_package_that_uv_calls_broken_is_told(machine: Machine, index: Index, install: Install) -> None:
    """Only of variants, whose markers uv doesn't read, it isn't."""
    odd = wheel("odd", "1.0", "lib >=>= 2")
    serve_lock(machine, index, odd)
    assert "warning: The package `odd` is broken or incomplete" in install().err


@pytest.mark.e2e
@pytest.mark.slow
def test_another_python(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """The lock moves to another Python: its packages move along, and those of the old one go."""
    others = [f"3.{minor}" for minor in range(10, 15) if f"3.{minor}" != PYTHON]
    found = None
    for other in others:
        try:
            found = find_interpreter(other, os.environ)
            break
        except ToolError:
            continue
    if found is None:
        pytest.skip("this machine has no second Python")
    serve_lock(machine, index, APP, LIB)
    install()
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)], python=other)
    env = {"PATH": f"{found.parent}{os.pathsep}{os.defpath}"}
    assert "! pip   app 1.0" in install(env=env).out
    assert python(prefix, "import sys, app; print('%d.%d' % sys.version_info[:2])") == other
    assert not list((prefix / f"lib/python{PYTHON}").rglob("*.dist-info"))
    assert install(env=env).out == f"{prefix} is here already: nothing to do\n"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_python_that_is_gone(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """The interpreter was taken away under a virtual environment: it gets one again."""
    serve_lock(machine, index, APP)
    install()
    for link in (prefix / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python")
    assert install().out == f"updated {prefix}: here, 1 package\n"
    assert python(prefix, "import app; print(app.version)") == "1.0"


# what is refused, and what is only said


@pytest.mark.e2e
def test_something_else_is_there(machine: Machine, prefix: Path, install: Install) -> None:
    write_lock(machine, [pip_pin(APP)])
    prefix.mkdir()
    (prefix / "thesis.tex").write_text("x")
    assert "isn't empty, and its content isn't envspec's (thesis.tex" in install(status=2).error
    assert os.listdir(prefix) == ["thesis.tex"]


@pytest.mark.e2e
@pytest.mark.slow
def test_another_spec_made_it(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP, name="other")
    assert machine.envspec("install", "specs/other.toml", "--prefix", str(prefix)).status == 0
    write_lock(machine, [pip_pin(APP)])
    before = tree(prefix)
    assert "the environment of another spec, other" in install(status=2).error
    assert tree(prefix) == before


@pytest.mark.e2e
def test_a_target_for_elsewhere(machine: Machine, prefix: Path, install: Install) -> None:
    write_lock(machine, [pip_pin(APP)], platform="linux-aarch64" if SUBDIR == "linux-64" else "linux-64")
    assert f"and this machine is {SUBDIR}" in install(status=2).error
    assert not prefix.exists()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_target_has_to_be_chosen(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.add(APP, APP2)
    write_lock(machine, {"one": [pip_pin(APP)], "two": [pip_pin(APP2)]})
    ran = install(status=2)
    assert "has 2 targets: one, two" in ran.error and "--target one" in ran.hint
    assert "did you mean two?" in install("--target", "tow", status=2).hint
    install("--target", "two")
    assert python(prefix, "import app; print(app.version)") == "2.0"
    assert "~ pip   app 2.0 → 1.0" in install("--target", "one").out
    assert (prefix / "etc/envspec/target").read_text() == "one\n"


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
def test_json(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    serve_lock(machine, index, APP)
    change = {"action": "install", "kind": "pip", "name": "app", "old": None, "new": "1.0", "reason": ""}
    planned = valid(install("--json", "--dry-run").out, "install")
    assert (planned["status"], planned["dry_run"], planned["changes"]) == ("installed", True, [change])
    done = valid(install("--json").out, "install")
    assert (done["status"], done["dry_run"], done["changes"], done["packages"]) == ("installed", False, [change], 1)
    assert (done["prefix"], done["target"]) == (str(prefix), "here")
    again = valid(install("--json").out, "install")
    assert (again["status"], again["changes"]) == ("unchanged", [])


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


@pytest.mark.e2e
@pytest.mark.slow
def test_a_stale_lock_is_told(machine: Machine, index: Index, install: Install) -> None:
    serve_lock(machine, index, APP)
    spec = machine.folder / SPEC
    spec.write_text(spec.read_text().replace("app==1.0", "app==2.0"))
    told = install(status=2).err
    assert "changed since it was locked" in told and "the spec requires app==2.0, but app is 1.0" in told
    spec.write_text(spec.read_text().replace("app==2.0", "app>=1"))
    assert "changed since it was locked" in install().err


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
@pytest.mark.by_day(1)
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


# where files come from


@pytest.mark.e2e
@pytest.mark.slow
def test_each_index_is_asked_for_its_own(machine: Machine, index: Index, install: Install) -> None:
    private = wheel("private", "1.0")
    with Index() as internal:
        index.add(APP)
        internal.add(private)
        write_lock(
            machine,
            [pip_pin(APP), pip_pin(private, "internal")],
            pip=f"indexes = {{ internal = '{internal.url}' }}\nsources = {{ private = 'internal' }}",
        )
        install()
        assert index.paths("/simple/") == ["/simple/app/"]
        assert internal.paths("/simple/") == ["/simple/private/"]


@pytest.mark.e2e
def test_an_index_that_the_spec_lost(machine: Machine, index: Index, install: Install) -> None:
    write_lock(machine, [pip_pin(APP, "internal")])
    assert "here: app is from internal, but must come from pypi  [wrong-index]" in install(status=2).err


@pytest.mark.e2e
@pytest.mark.slow
def test_the_pytorch_index_has_a_mirror(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    with Index() as mirror:
        mirror.add(torch)
        machine.configure(f"'pytorch/cpu' = '{mirror.url}'")
        write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
        install()
        assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.e2e
@pytest.mark.slow
def test_files_at_hand_need_no_index(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(torch.content)
    write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
    install(env={"PIP_FIND_LINKS": str(folder)})
    assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_changed_file_at_hand_is_passed_over(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    torch = wheel("torch", "2.99.0+cpu")
    folder = machine.base / "wheels"
    folder.mkdir()
    (folder / torch.file).write_bytes(wheel("torch", "2.99.0+cpu", padding=10).content)
    machine.configure(f"'pytorch/cpu' = '{index.url}'")
    write_lock(machine, [pip_pin(torch, "pytorch/cpu")])
    assert "has no torch" in install(status=3, env={"PIP_FIND_LINKS": str(folder)}).error
    index.add(torch)
    install(env={"PIP_FIND_LINKS": str(folder)})
    assert not (prefix / f"lib/python{PYTHON}/site-packages/torch.bin").exists()


@pytest.mark.e2e
@pytest.mark.slow
def test_a_page_of_files_at_hand(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    """pip's `find-links` may name a page: a flat one, of many packages."""
    torch = wheel("torch", "2.99.0+cpu")
    with Index() as flat:
        flat.add(torch)
        write_lock(machine, [pip_pin(torch)])
        install(env={"PIP_FIND_LINKS": f"{flat.url}/torch/"})
        assert index.asked == []
    assert python(prefix, "import torch; print(torch.version)") == "2.99.0+cpu"


@pytest.mark.e2e
@pytest.mark.slow
def test_only_what_is_locked_as_source_is_built(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    witness = machine.base / "built"
    wanted, other = sdist("wanted", "1.0", witness=str(witness)), sdist("app", "1.0", witness=str(witness))
    index.add(APP, other, wanted)
    write_lock(machine, [pip_pin(APP), pip_pin(wanted)], pip="allow-source = ['wanted']")
    install()
    assert set(witness.read_text().split()) == {"wanted"}
    assert python(prefix, "import app, wanted; print(app.version)") == "1.0"


@pytest.mark.e2e
@pytest.mark.slow
def test_a_git_commit(machine: Machine, prefix: Path, install: Install) -> None:
    if shutil.which("git") is None:
        pytest.skip("git isn't installed")
    repository = machine.base / "repository"
    repository.mkdir()
    for path, text in source_files("wanted", "1.0").items():
        (repository / path).write_text(text)
    for step in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        identity = ["-c", "user.name=x", "-c", "user.email=x@host.example", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *step], cwd=repository, check=True)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True
    ).stdout.strip()
    pin = Pin("pip", "wanted", "1.0", "git", None, direct=True, git=GitSource(repository.as_uri(), commit))
    write_lock(machine, [pin], pip="allow-source = ['wanted']")
    install()
    assert python(prefix, "import wanted; print('here')") == "here"
    assert "nothing to do" in install().out


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


@pytest.mark.e2e
def test_credentials_are_in_no_command_line(machine: Machine, index: Index, prefix: Path, install: Install) -> None:
    index.credentials = ("me", "s3cret")
    index.add(APP)
    index.fail("/files/", hanging)
    write_lock(machine, [pip_pin(APP)])
    env = {"UV_DEFAULT_INDEX": index.url_with("me", "s3cret")}
    process = machine.start("install", SPEC, "--prefix", str(prefix), env=env)
    index.wait_for("/files/")
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            continue
    assert any(b"install" in line and SPEC.encode() in line for line in lines)
    assert not any(b"s3cret" in line for line in lines)
    process.terminate()
    assert process.wait(30) == 130
    index.heal()
    install(env=env)
    left = [path for path in machine.base.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert [path for path in left if prefix in path.parents] == []
