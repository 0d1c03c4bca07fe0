"""Sources whose code leaves a trace when it runs, through every command that might touch them: no trace where the spec
doesn't allow them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import SLOW
from support.packages import Dist, metadata_text, sdist, wheel

pytestmark = pytest.mark.e2e

OLD = "Metadata-Version: 1.0\nName: {name}\nVersion: 1.0\n"


def traps(witness: Path) -> list[Dist]:
    """A source of each kind: PEP 517 backend or setup.py, its requirements told or only known by running it."""
    code = (
        f"open({str(witness)!r}, 'a').write('setup.py')\nfrom setuptools import setup\nsetup(name='x', version='1.0')\n"
    )
    setup = {"setup.py": code, "pyproject.toml": ""}
    told, untold = metadata_text("setup-told", "1.0", ["dep"]), OLD.format(name="setup-untold")
    return [
        sdist("backend-told", "1.0", "dep", witness=str(witness)),
        sdist("backend-untold", "1.0", "dep", static=False, witness=str(witness)),
        sdist("setup-told", "1.0", files={**setup, "PKG-INFO": told}),
        sdist("setup-untold", "1.0", files={**setup, "PKG-INFO": untold}),
    ]


NAMES = ("backend-told", "backend-untold", "setup-told", "setup-untold")

COMMANDS = (
    ("lock", "specs/demo.toml"),
    ("lock", "specs/demo.toml", "--upgrade"),
    ("lock", "specs/demo.toml", "--offline"),
    ("check", "specs/demo.toml"),
    ("diff", "specs/demo.toml"),
    ("why", "specs/demo.toml", "dep"),
    ("tree", "specs/demo.toml"),
    ("doctor", "specs/demo.toml"),
    ("audit", "specs/demo.toml"),
    ("export", "specs/demo.toml", "--format", "requirements", "-o", "-"),
    ("export", "specs/demo.toml", "--format", "dockerfile"),
    ("report", "specs/demo.toml", "-o", "report.html"),
    ("bundle", "specs/demo.toml", "--target", "cpu", "-o", "bundle.tar"),
    ("install", "specs/demo.toml", "--target", "cpu", "--prefix", "prefix"),
)


@pytest.fixture
def witness(machine: Machine, index: Index) -> Path:
    path = machine.base / "witness"
    index.add(*traps(path), wheel("dep", "1.0"))
    return path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_runs_that_is_not_allowed(machine: Machine, witness: Path, command: tuple[str, ...]) -> None:
    machine.spec(cpu(*NAMES))
    machine.envspec(*command)
    assert not witness.exists()


ASKING = [one for one in COMMANDS if one[0] not in ("lock", "install")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=[SLOW] * (at > 0)) for at, one in enumerate(ASKING)],
    ids=list(map(" ".join, ASKING)),
)
def test_what_is_allowed_runs_for_no_question(
    machine: Machine, index: Index, witness: Path, command: tuple[str, ...]
) -> None:
    """What is locked is asked about, shown and packed without running it."""
    index.add(wheel("setuptools", "80.0"), wheel("wheel", "0.45"))
    machine.locked(spec=cpu("backend-told", "setup-told", extra="allow-source = ['backend-told', 'setup-told']"))
    witness.unlink()
    machine.envspec(*command)
    assert not witness.exists()


@pytest.mark.slow
def test_one_that_is_allowed_opens_no_door_for_others(machine: Machine, index: Index, witness: Path) -> None:
    """Neither for what it requires nor for what its build requires."""
    builder = "[build-system]\nrequires = ['setup-untold']\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    index.add(sdist("friend", "1.0", "backend-untold", static=False))
    index.add(sdist("lured", "1.0", static=False, files={"pyproject.toml": builder}))
    ran = machine.envspec("lock", machine.spec(cpu("friend", extra="allow-source = ['friend']")))
    assert ran.status == 1 and "backend-untold 1.0 (friend → backend-untold" in ran.error
    assert machine.envspec("lock", machine.spec(cpu("lured", extra="allow-source = ['lured']"))).status == 3
    assert not witness.exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")
def test_a_git_package_that_is_allowed_opens_no_door_either(machine: Machine, witness: Path, tmp_path: Path) -> None:
    folder = tmp_path / "friend"
    folder.mkdir()
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "setup.py").write_text(f"open({str(witness)!r}, 'a').write('git')\n")
    (folder / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['setup-untold']\nbuild-backend = 'setuptools.build_meta'\n"
        f"[project]\nname = 'friend'\nversion = '1.0'\ndependencies = ['trap @ git+{trap.as_uri()}']\n"
    )
    for repository in (folder, trap):
        for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
            author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
            subprocess.run(["git", *author, *arguments], cwd=repository, check=True, capture_output=True)
    machine.spec(cpu(f"friend @ git+{folder.as_uri()}@main", extra="allow-source = ['friend']"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status != 0 and not witness.exists(), ran.err


@pytest.mark.slow
def test_what_is_allowed_does_run(machine: Machine, witness: Path) -> None:
    """The traps work: otherwise the tests above would pass for nothing."""
    machine.locked(spec=cpu("backend-untold", extra="allow-source = ['backend-untold']"))
    assert witness.exists()


@pytest.mark.slow
def test_a_setup_py_does_run(machine: Machine, witness: Path) -> None:
    (trap,) = [one for one in traps(witness) if one.name == "setup-untold"]
    (machine.base / trap.file).write_bytes(trap.content)
    shutil.unpack_archive(machine.base / trap.file, machine.base / "unpacked")
    subprocess.run([sys.executable, "setup.py", "--version"], cwd=machine.base / "unpacked" / "setup_untold-1.0")
    assert witness.exists()
