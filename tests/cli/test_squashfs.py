"""`--squashfs` of `image` and `install`: an environment as one file, which works wherever it is mounted or unpacked."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conda_archives import Archive, Channel
from support.documents import valid
from support.index import Index
from support.installs import SPEC, SUBDIR, pip_pin, serve_lock, write_lock
from support.machine import Machine
from support.packages import wheel
from support.python_build import lock_build, served, standalone_build

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not SUBDIR.startswith("linux-"), reason="a squashfs is for Linux"),
    pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="no mksquashfs"),
]

APP = wheel(
    "app",
    "1.0",
    "lib",
    files={
        "app-1.0.dist-info/entry_points.txt": b"[console_scripts]\nrun-app = app:main\n",
        "app.py": b"import sys\ndef main():\n    print(sys.executable, sys.argv[1:])\n",
        "app-1.0.data/scripts/own": b"#!python\nimport sys\nprint(sys.prefix)\n",
    },
)
LIB = wheel("lib", "1.0")
FILE = "demo.sqfs"
ACTIVATE = 'PS1="> "; . "$1/bin/activate"; command -v run-app; deactivate; compgen -v _ENVSPEC'


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return standalone_build(tmp_path_factory)


@pytest.fixture
def locked(machine: Machine, index: Index, build: Path, tmp_path: Path) -> Iterator[Machine]:
    """A lock of both packages and of the build, which a mirror has."""
    index.add(APP, LIB)
    lock_build(machine, write_lock(machine, [pip_pin(APP), pip_pin(LIB)]), build)
    with served(build, tmp_path / "builds") as mirror:
        machine.configure(f'python = "{mirror}"')
        machine.variables["UV_PYTHON_DOWNLOADS"] = "automatic"
        yield machine


def listed(file: Path) -> str:
    return subprocess.run(["unsquashfs", "-lls", str(file)], capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_one_file_works_at_any_path(locked: Machine, tmp_path: Path) -> None:
    ran = locked.envspec("image", SPEC, "--squashfs", FILE, status=0)
    file = locked.folder / FILE
    assert f"digest sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n" in ran.out
    assert "in one, " in ran.out and "bash envspec-mount demo.sqfs python" in ran.hint
    entries = [line.split() for line in listed(file).splitlines() if line[:1] in "-dl" and "root" in line]
    assert {(words[1], words[3]) for words in entries} == {("root/root", "1980-01-01")}
    assert ".pyc" not in listed(file)
    for name in ("one place", "another"):
        place = tmp_path / name
        subprocess.run(["unsquashfs", "-q", "-n", "-d", str(place), str(file)], check=True, capture_output=True)
        code = "import app, lib, sys; print(sys.prefix == sys.base_prefix == sys.argv[1])"
        told = subprocess.run([place / "bin/python", "-I", "-c", code, place], capture_output=True, text=True)
        assert told.stdout == "True\n", told.stderr
        told = subprocess.run([place / "bin/run-app", "a b"], capture_output=True, text=True)
        assert told.stdout == f"{place}/bin/python ['a b']\n", told.stderr
        assert subprocess.run([place / "bin/own"], capture_output=True, text=True).stdout == f"{place}\n"
        active = subprocess.run(
            ["bash", "-c", ACTIVATE, "", place],
            capture_output=True, text=True,
        )  # fmt: skip
        assert active.stdout == f"{place}/bin/run-app\n", active
        assert not list(place.glob("lib/python*/site-packages/pip*")), "the build's own pip is of no lock"
        assert (place / "etc/envspec/mount").read_text() == "anywhere\n"


@pytest.mark.nightly
def test_the_same_lock_gives_the_same_bytes(locked: Machine) -> None:
    """By both commands, whatever the umask, the time zone, the folder, the processors and the place."""
    assert locked.envspec("image", SPEC, "--squashfs", FILE, spawn=True).status == 0
    locked.variables |= {"TZ": "Asia/Tokyo", "LANG": "C", "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1"}
    (locked.folder / "elsewhere").mkdir()
    before = os.umask(0o077)
    cpus = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cpus)})
        ran = locked.envspec(
            "install", SPEC, "--squashfs", f"elsewhere/{FILE}", "--prefix", "/some/where", "--json", spawn=True
        )
    finally:
        os.umask(before)
        os.sched_setaffinity(0, cpus)
    assert ran.status == 0, ran.err
    document = valid(ran.out, "install")
    assert document["squashfs"]["at"] is None and document["squashfs"]["inside"] > 500
    assert (locked.folder / FILE).read_bytes() == (locked.folder / "elsewhere" / FILE).read_bytes()


@pytest.mark.nightly
def test_conda_packages_make_it_one_for_its_place(locked: Machine, build: Path, tmp_path: Path) -> None:
    """Their files name their prefix, which is where the file says that it has to be mounted."""
    files = {"bin/said": b"#!/bin/sh\necho /old/prefix/share\n"}
    said = Archive("said", "1.0", files=files, placeholders={"bin/said": "/old/prefix"})
    channel = Channel(tmp_path / "channel").add(said)
    lock = write_lock(locked, [pip_pin(APP), pip_pin(LIB), channel.pin(said)], channels=[channel.url])
    lock_build(locked, lock, build)
    ran = locked.envspec("install", SPEC, "--squashfs", FILE, "--prefix", "/some/where", status=0)
    assert ", for /some/where alone, " in ran.out and "envspec-mount --at /some/where demo.sqfs" in ran.hint
    place = tmp_path / "there"
    subprocess.run(["unsquashfs", "-q", "-n", "-d", place, locked.folder / FILE], check=True, capture_output=True)
    assert (place / "etc/envspec/mount").read_text() == "/some/where\n"
    assert subprocess.check_output(["sh", place / "bin/said"], text=True) == "/some/where/share\n"
    assert (place / "bin/own").read_text().startswith("#!/some/where/bin/python\n")


def test_what_can_t_be_written_is_said(machine: Machine, index: Index) -> None:
    serve_lock(machine, index, APP, LIB)
    machine.variables["PATH"] = "/nowhere"
    ran = machine.envspec("image", SPEC, "--squashfs", FILE)
    assert ran.status == 3 and "a squashfs is written by mksquashfs, and PATH has none" in ran.error
    assert "apt install squashfs-tools" in ran.hint
    ran = machine.envspec("install", SPEC, "--squashfs", FILE, "--dry-run")
    assert ran.status == 2 and "--dry-run" in ran.error
    assert not (machine.folder / FILE).exists()
