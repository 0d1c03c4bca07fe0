"""Sources whose code leaves a trace when it runs, through every command that might touch them: no trace where the spec
doesn't allow them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import PYTHON
from support.machine import Machine, cpu
from support.matrix import SLOW
from support.packages import Dist, metadata_text, sdist, wheel

from envspec.lock.store import LockFolder

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


def hidden_code(witness: Path) -> dict[str, dict[str, str]]:
    """Sources whose setup.py is one setup() of literals to the eye."""
    setup = "from setuptools import setup\nsetup(name='lib', version='1.0', py_modules=['lib'])\n"
    code = f"open({str(witness)!r}, 'a').write('lib')\n"
    entry = {
        "evil.DIST-INFO/entry_points.txt": "[distutils.commands]\negg_info = evil:a\n",
        "evil.DIST-INFO/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    }
    return {
        "in a comment that Python reads as UTF-7": {"setup.py": f"# coding: utf-7\n# +AAo-{code}{setup}"},
        "by an entry point in a folder in capitals": {"setup.py": setup, "evil.py": code, **entry},
        "in a module that setuptools imports if it is there": {"setup.py": setup, "Cython/__init__.py": code},
    }


HIDDEN = tuple(hidden_code(Path()))


@pytest.mark.parametrize("where", HIDDEN)
def test_a_source_that_passes_for_one_without_code(machine: Machine, index: Index, witness: Path, where: str) -> None:
    info = {"PKG-INFO": OLD.format(name="lib"), "pyproject.toml": ""}
    index.add(sdist("lib", "1.0", files={**info, **hidden_code(witness)[where]}))
    index.add(wheel("setuptools", "80.0"), wheel("wheel", "0.45"))
    before = machine.folder / machine.spec(cpu("lib"))
    said = before.read_text()
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 1 and "--allow-needed" in ran.hint, ran.err
    assert before.read_text() == said and not witness.exists()


@pytest.mark.slow
@pytest.mark.parametrize("where", HIDDEN)
def test_its_code_does_run(tmp_path: Path, where: str) -> None:
    """As a builder starts it, with the source's folder before all others."""
    witness = tmp_path / "witness"
    for name, text in {"lib.py": "", **hidden_code(witness)[where]}.items():
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_text(text)
    build = "from setuptools.build_meta import __legacy__ as it; it.build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path / "lib", capture_output=True, check=False)
    assert witness.exists()


SETTINGS = ("ENVSPEC_ALLOW_NEEDED", "ENVSPEC_LOCK_ALLOW_NEEDED", "ENVSPEC_ALLOW_SOURCE")


def test_no_setting_and_no_lock_allows_a_source(machine: Machine, witness: Path) -> None:
    """Only an option and the spec's own word: no variable, no file of a pull request, no lock that says that it was."""
    said = "allow-needed = true\nallow-source = ['setup-untold']\n"
    for name in ("envspec.toml", "pyproject.toml", ".config/envspec/config.toml", "locks/demo/envspec.toml"):
        (machine.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.folder / name).write_text(f"{said}[pip]\n{said}[tool.envspec]\n{said}")
    path = machine.spec(cpu("dep"))
    machine.locked()
    lock = machine.lock_path()
    lock.write_text(lock.read_text().replace('name = "demo"\n', 'name = "demo"\nallow-source = ["setup-untold"]\n', 1))
    machine.spec(cpu("dep", "setup-untold"))
    ran = machine.envspec("lock", path, env=dict.fromkeys(SETTINGS, "1"))
    assert ran.status == 1 and "setup-untold" in lock.read_text() and not witness.exists(), ran.err
    assert "allow-source" not in (machine.folder / path).read_text()


@pytest.mark.slow
def test_a_lock_that_calls_a_source_inert(machine: Machine, index: Index, witness: Path) -> None:
    """By the hand of a pull request: `check` asks nobody, and what reads the source refuses it before it is built."""
    index.add(wheel("setuptools", "80.0"), wheel("wheel", "0.45"))
    path = machine.spec(cpu("setup-told", extra="allow-source = ['setup-told']", python=PYTHON))
    machine.locked()
    witness.unlink(missing_ok=True)
    honest = machine.lock()
    (target,) = honest.targets
    pins = tuple(
        replace(pin, artifact=replace(pin.artifact, inert=True)) if pin.name == "setup-told" and pin.artifact else pin
        for pin in target.pins
    )
    inputs = replace(honest.inputs, allow_source=())
    forged = replace(honest, inputs=inputs, targets=(replace(target, pins=pins),))
    LockFolder(machine.folder / "locks", "demo").write(forged)
    machine.spec(cpu("setup-told", python=PYTHON))
    assert machine.envspec("check").status == 0
    ran = machine.envspec("install", path, "--target", "cpu", "--prefix", "prefix")
    assert ran.status and "says that its build runs no code of its own, and it may run some" in ran.err, ran.err
    ran = machine.envspec("verify", path)
    assert ran.status == 1 and "may run code of its own" in ran.out, ran.out
    assert not witness.exists()


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
