"""A machine without the lock's Python: uv brings one, in a test from a folder that stands for the builds' address."""

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import SPEC, SUBDIR, serve_lock
from support.machine import Machine
from support.packages import wheel
from support.python_stand_in import stand_in
from support.serving import serving

from envspec.base.errors import ToolError
from envspec.export.python_build import folder_name
from envspec.install.interpreter import find_interpreter, place_of_build
from envspec.lock.model import Lock, LockedPython
from envspec.lock.store import LockFolder
from envspec.resolve.uv.program import find_uv

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(SUBDIR != "linux-64", reason="the stand-in is a build for linux-64")]

APP = wheel("app", "1.0")
BUILD = "20990107"
"""Later than the table of builds that ships, which has no others than its own before."""


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


def test_a_build_is_there_with_its_release_and_its_interpreter(tmp_path: Path) -> None:
    build = LockedPython("linux-64", "3.12.1", BUILD, "x.tar.gz", "0" * 64, 1)
    env = {"HOME": str(tmp_path), "UV_PYTHON_INSTALL_DIR": str(tmp_path / "of-uv")}
    root = tmp_path / "of-uv" / folder_name(build)
    interpreter = root / "bin" / "python3.12"
    interpreter.parent.mkdir(parents=True)
    (root / "BUILD").write_text(BUILD)
    assert place_of_build(build, env) is None, "its interpreter is missing"
    interpreter.write_text("")
    assert place_of_build(build, env) == interpreter
    (root / "BUILD").write_text("20990108")
    assert place_of_build(build, env) is None, "another release"


def build_of(folder: Path, python: str, program: Path) -> LockedPython:
    """A build in a mirror: as its Python, the one of this machine."""
    version = f"{python}.1"
    file = f"cpython-{version}+{BUILD}-x86_64-unknown-linux-gnu-install_only.tar.gz"
    content = stand_in(python, str(program))
    path = folder / BUILD / file
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return LockedPython(SUBDIR, version, BUILD, file, hashlib.sha256(content).hexdigest())


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


Locked = Callable[[LockedPython], Lock]


@pytest.fixture
def without(machine: Machine, index: Index, mirror: Path) -> tuple[Machine, LockedPython]:
    """A machine that has no Python of the lock's version, and the build in the mirror that the lock names."""
    python, program = another_python()
    lock = serve_lock(machine, index, APP, python=python)
    build = build_of(mirror, python, program)
    LockFolder(machine.locks, "demo").write(replace(lock, pythons=(build,)))
    machine.variables |= {"UV_PYTHON_INSTALL_MIRROR": mirror.as_uri(), "UV_PYTHON_DOWNLOADS": "automatic"}
    # the programs of other Pythons may lie there
    machine.variables["PATH"] = str(mirror)
    return machine, build


@pytest.mark.slow
def test_the_locks_own_build_is_fetched_by_its_hash(without: tuple[Machine, LockedPython]) -> None:
    machine, build = without
    machine.envspec("install", SPEC, status=0)
    brought = machine.home / ".local" / "share" / "uv" / "python" / f"cpython-{build.version}-linux-x86_64-gnu"
    assert brought.is_dir()
    (prefix,) = machine.environments.iterdir()
    assert (prefix / "lib" / f"python{build.version.rpartition('.')[0]}" / "site-packages" / "app.py").is_file()


@pytest.mark.slow
def test_a_build_of_another_hash_is_refused(without: tuple[Machine, LockedPython], mirror: Path) -> None:
    machine, build = without
    path = mirror / BUILD / build.file
    path.write_bytes(path.read_bytes() + b"\0")
    found = machine.envspec("install", SPEC, status=3)
    assert (
        f"uv can't fetch CPython {build.version} of {BUILD}, which the lock names: " in found.error
        and "Hash mismatch" in found.error
    )
    assert "UV_PYTHON_INSTALL_MIRROR" in found.hint and "UV_PYTHON_DOWNLOADS=never" in found.hint


@contextmanager
def over_http(machine: Machine, mirror: Path) -> Iterator[list[str]]:
    """The mirror served on loopback, as the machine's configuration names it; gives what it is asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            asked.append(str(args[0]))

    del machine.variables["UV_PYTHON_INSTALL_MIRROR"]
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(mirror)))) as url:
        machine.configure(f'python = "{url}"')
        yield asked


@pytest.mark.slow
def test_it_comes_from_the_mirror_of_the_configuration(without: tuple[Machine, LockedPython], mirror: Path) -> None:
    """Also where the machine has a Python of that version, and once for all environments."""
    machine, _ = without
    machine.variables["PATH"] = str(another_python()[1].parent)
    with over_http(machine, mirror) as asked:
        for prefix in ("one", "two"):
            found = machine.envspec("install", SPEC, "--prefix", prefix)
            assert found.status == 0 and "note:" not in found.err, found.err
        assert "nothing to do" in machine.envspec("install", SPEC, "--prefix", "one").out
    assert len(asked) == 1 and f"/{BUILD}/" in asked[0]


@pytest.mark.slow
def test_a_bundle_holds_it(without: tuple[Machine, LockedPython], mirror: Path) -> None:
    machine, build = without
    with over_http(machine, mirror):
        assert machine.envspec("bundle", SPEC, "-o", "demo.tar").status == 0
        again = machine.envspec("bundle", SPEC, "--since", "demo.tar", "-o", "small.tar")
    assert again.status == 0, again.err
    folders = [machine.folder / name for name in ("bundle", "small")]
    for folder, name in zip(folders, ("demo.tar", "small.tar"), strict=True):
        with tarfile.open(machine.folder / name) as archive:
            archive.extractall(folder, filter="data")
    assert (folders[0] / "python" / build.file).is_file() and not (folders[1] / "python").exists()
    env = {"PATH": f"{Path(find_uv(os.environ).executable).parent}:/usr/bin:/bin", "HOME": str(machine.home)}
    for folder, more, prefix in ((folders[0], [], "env"), (folders[1], ["--with", str(folders[0])], "other")):
        place = machine.folder / prefix
        ran = subprocess.run(["sh", folder / "install.sh", *more, place], env=env, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        python = build.version.rpartition(".")[0]
        assert f"home = {place}/.python/bin\n" in (place / "pyvenv.cfg").read_text()
        assert (place / "lib" / f"python{python}" / "site-packages" / "app.py").is_file()


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("words", [["install", SPEC], ["run", SPEC, "--", "python", "-V"]], ids=["install", "run"])
def test_a_machine_that_fetches_none_uses_its_own_and_says_so(
    without: tuple[Machine, LockedPython], words: list[str]
) -> None:
    machine, build = without
    machine.variables["PATH"] = str(another_python()[1].parent)
    found = machine.envspec(*words, env={"UV_PYTHON_DOWNLOADS": "never"}, spawn=True, status=0)
    said = f"not the lock's {build.version}+{BUILD}: UV_PYTHON_DOWNLOADS lets none be fetched"
    assert "note: the environment has this machine's Python" in found.err and said in found.err


@pytest.mark.slow
def test_the_machines_own_is_judged_by_its_full_version(without: tuple[Machine, LockedPython]) -> None:
    machine, build = without
    _, program = another_python()
    machine.variables |= {"PATH": str(program.parent), "UV_PYTHON_DOWNLOADS": "never"}
    own = subprocess.check_output([program, "-V"], text=True).split()[1]
    (target,) = machine.lock().targets
    pins = tuple(replace(pin, requires_python=f"!={own}") for pin in target.pins)
    LockFolder(machine.locks, "demo").write(replace(machine.lock(), targets=(replace(target, pins=pins),)))
    found = machine.envspec("install", SPEC, status=3)
    assert f"can't have this machine's Python {own}: app 1.0 doesn't take Python {own}" in found.error
    assert f"uv python install {build.version}" in found.hint and not list(
        machine.environments.glob("*/lib/*/*/app.py")
    )


@pytest.mark.slow
def test_another_release_of_the_version_isnt_taken_for_it(without: tuple[Machine, LockedPython]) -> None:
    machine, build = without
    there = machine.home / ".local/share/uv/python" / f"cpython-{build.version}-linux-x86_64-gnu"
    there.mkdir(parents=True)
    (there / "BUILD").write_text("20980101")
    assert machine.envspec("install", SPEC).status == 0
    assert (machine.home / ".local/share/envspec/python" / BUILD / there.name / "BUILD").read_text() == BUILD
    assert (there / "BUILD").read_text() == "20980101"


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--offline"], {}), ([], {"UV_PYTHON_DOWNLOADS": "never"})], ids=["offline", "never"]
)
def test_nothing_is_fetched_unasked(
    without: tuple[Machine, LockedPython], arguments: list[str], variables: dict[str, str]
) -> None:
    machine, build = without
    found = machine.envspec("install", SPEC, *arguments, env=variables, status=3)
    assert f"this machine has no CPython {build.version.rpartition('.')[0]}" in found.error
    assert not (machine.home / ".local" / "share" / "uv").exists()
