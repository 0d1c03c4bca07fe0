"""`envspec bundle` with the spec's own project, and with what is compiled against the environment."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import sdist, source_files, wheel

pytestmark = [pytest.mark.nightly, pytest.mark.e2e]

BACKEND = source_files("own", "1.0")["backend.py"].replace("writestr(path,", "writestr(zipfile.ZipInfo(path),")
MAKER = wheel("maker", "1.0", files={"maker.py": BACKEND.encode()})
"""A build backend for `own`: it comes from the index, as any does."""
PROJECT = """\
[build-system]
requires = ["maker"]
build-backend = "maker"
[project]
name = "own"
version = "1.0"
dependencies = ["app"]
"""
SPEC = f"""\
[env]
name = "demo"
python = "{PYTHON}"
project = ".."
[pip]
dependencies = ["fast"]
allow-source = ["fast"]
build-dependencies = {{ fast = ["tool"] }}
[targets.here]
platform = "{SUBDIR}"
glibc = "2.17"
"""


@pytest.fixture
def own(machine: Machine, index: Index) -> Path:
    backend = f"import tool\n{source_files('fast', '1.0')['backend.py']}"
    index.add(MAKER, wheel("app", "1.0"), wheel("tool", "1.0"))
    index.add(sdist("fast", "1.0", files={"backend.py": backend}))
    (machine.folder / "pyproject.toml").write_text(PROJECT)
    machine.locked(spec=SPEC)
    return machine.folder


def test_it_holds_the_projects_wheel_and_how_to_build_what_is_compiled(machine: Machine, own: Path) -> None:
    for name in ("one.tar", "two.tar"):
        ran = machine.envspec("bundle", "specs/demo.toml", "-o", name, status=0)
    assert "installing compiles fast against the bundle's own packages" in ran.err
    assert (own / "one.tar").read_bytes() == (own / "two.tar").read_bytes()
    folder = own / "unpacked"
    with tarfile.open(own / "one.tar") as tar:
        tar.extractall(folder, filter="data")
    assert [path.name for path in (folder / "project").iterdir()] == ["own-1.0-py3-none-any.whl"]
    assert "fast" not in (folder / "requirements.txt").read_text()
    assert "fast==1.0" in (folder / "builds" / "000-fast.txt").read_text()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(own), "PYTHON": sys.executable}
    command = ["sh", str(folder / "install.sh"), str(own / "made")]
    made = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert made.returncode == 0, made.stderr + made.stdout
    look = "import json, own, fast; from importlib.metadata import distributions as d; "
    look += "print(json.dumps({x.name: x.read_text('direct_url.json') for x in d()}))"
    seen = subprocess.run([own / "made" / "bin" / "python", "-c", look], capture_output=True, text=True, check=True)
    found = json.loads(seen.stdout)
    assert {"own", "fast", "app", "tool", "maker"} <= found.keys() and set(found.values()) == {None}
    (folder / "project" / "more.whl").write_bytes(b"")
    again = subprocess.run([*command[:2], "other"], capture_output=True, text=True, check=False, env=env, cwd=own)
    assert again.returncode == 2 and "project/more.whl isn't of this bundle" in again.stderr
