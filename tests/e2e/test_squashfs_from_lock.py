"""The shipped cpu-py311 as one file: the smoke check passes in it, mounted by squashfuse, unpacked, and bound into an
image by the real Apptainer. Its Python is a stand-in of this machine's own, as the real build can't be reached here."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.debian import debian_tree
from support.installs import SUBDIR
from support.other_python import envspec_of
from support.python_build import standalone_build
from support.shipped_project import ShippedProject, shipped_project
from support.sif import torch_wheel

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.e2e,
    pytest.mark.skipif(SUBDIR != "linux-64", reason="the lock is for linux-64"),
    pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="no mksquashfs"),
]

IMPORTS = "import sys, torch, numpy; print(torch.__version__, sys.prefix)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedProject]:
    torch_wheel()
    build = standalone_build(tmp_path_factory)
    with shipped_project("cpu-py311", build, tmp_path_factory.mktemp("shipped")) as made:
        yield made


@pytest.fixture(scope="module")
def file(project: ShippedProject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "cpu.sqfs"
    project.envspec("install", "--squashfs", str(path))
    return path


def mounted(file: Path, *program: str, tmp: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program by the script that the file brings."""
    script = tmp / "envspec-mount"
    with script.open("wb") as out:
        subprocess.run(["unsquashfs", "-cat", str(file), "bin/envspec-mount"], stdout=out, check=True)
    env = {**os.environ, "ENVSPEC_MOUNTS": str(tmp / "mounts"), **({"PATH": path} if path else {})}
    ran = subprocess.run(
        ["bash", str(script), str(file), *program], env=env, capture_output=True, text=True, check=False
    )
    assert os.listdir(tmp / "mounts") == [] and str(tmp) not in Path("/proc/mounts").read_text()
    return ran


@pytest.mark.skipif(
    shutil.which("squashfuse") is None or not os.access("/dev/fuse", os.W_OK), reason="no squashfuse or no /dev/fuse"
)
def test_the_smoke_check_passes_in_the_mount(file: Path, tmp_path: Path) -> None:
    ran = mounted(file, "python", "-c", IMPORTS, tmp=tmp_path)
    assert ran.stdout.split()[0] == "2.13.0+cpu" and str(tmp_path / "mounts") in ran.stdout, ran.stderr
    ran = mounted(file, "smoke", "--quick", tmp=tmp_path)
    assert ran.returncode == 0 and " 0 failed" in ran.stdout + ran.stderr, ran.stderr[-3000:]


def test_it_runs_unpacked(file: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            if not program.name.startswith(("squashfuse", "python")) and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    ran = mounted(file, "python", "-c", IMPORTS, tmp=tmp_path, path=str(tools))
    assert ran.stdout.split()[0] == "2.13.0+cpu", ran.stderr


def own_squashfuse(folder: Path) -> str:
    """A PATH with this machine's squashfuse and its libraries in one folder: for an Apptainer that has another root."""
    found = shutil.which("squashfuse_ll")
    if found is None or not os.access("/dev/fuse", os.W_OK):
        return os.environ["PATH"]
    folder.mkdir()
    shutil.copy(found, folder / "program")
    told = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
    libraries = [word for word in told.split() if word.startswith("/")]
    for library in libraries:
        shutil.copy(library, folder)
    (loader,) = (Path(library).name for library in libraries if "/ld-linux" in library)
    script = folder / "squashfuse_ll"
    script.write_text(f'#!/bin/sh\nexec {folder}/{loader} --library-path {folder} {folder}/program "$@"\n')
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer")
@pytest.mark.skipif(shutil.which("debootstrap") is None, reason="no debootstrap")
def test_it_runs_bound_into_an_image(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of Debian alone, and the file at /opt/env."""
    monkeypatch.setenv("PATH", own_squashfuse(tmp_path / "squashfuse"))
    bind = ["apptainer", "exec", "--containall", "--no-home", "--bind", f"{file}:/opt/env:image-src=/"]
    words = [*bind, str(debian_tree()), "sh", "/opt/env/etc/envspec/entrypoint.sh"]
    ran = subprocess.run([*words, "python", "-c", IMPORTS], capture_output=True, text=True, check=False)
    if "loop device" in ran.stderr:
        pytest.skip("this Apptainer has no squashfuse, with which it binds images without root")
    assert ran.stdout.split() == ["2.13.0+cpu", "/opt/env"], ran.stderr
    # Debian alone has no compiler, which torch.compile needs
    groups = ["--only", "static", "--only", "training"]
    ran = subprocess.run([*words, "smoke", "--quick", *groups], capture_output=True, text=True, check=False)
    assert ran.returncode == 0 and " 0 failed" in ran.stdout + ran.stderr, ran.stderr[-3000:]


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_another_python_makes_the_same_file(version: str, project: ShippedProject, file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.sqfs"
    program = [str(envspec_of(version, tmp_path / "env"))]
    project.envspec("install", "--squashfs", str(again), program=program, TZ="Asia/Tokyo")
    assert again.read_bytes() == file.read_bytes()
