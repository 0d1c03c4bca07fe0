"""`envspec bundle --build-wheels` and `--with-base`: what a machine without internet and without compilers needs."""

import hashlib
import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.documents import valid
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, uv_alone, write_lock
from support.machine import Machine
from support.packages import sdist, wheel
from support.python_build import lock_build, served, standalone_build

from envspec.lock.model import BuildPin

pytestmark = pytest.mark.e2e

BACKEND = '[build-system]\nrequires = ["builder==1.0"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
APP, LIB, BUILDER = wheel("app", "1.0", "lib"), wheel("lib", "1.0"), wheel("builder", "1.0")
SLOW, OTHER = (sdist(name, "1.0", files={"pyproject.toml": BACKEND}) for name in ("slow", "other"))
RULES = 'allow-source = ["slow", "other"]\nbuild-dependencies = { other = ["builder"] }'


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    """A lock with wheels and two sources: one built with what the lock names, one with what the spec says."""
    index.add(APP, LIB, SLOW, OTHER, BUILDER)
    built_with = (BuildPin("builder", "1.0", BUILDER.file, BUILDER.sha256, len(BUILDER.content)),)
    pins = [pip_pin(one) for one in (APP, LIB, OTHER, BUILDER)]
    write_lock(machine, [*pins, replace(pip_pin(SLOW), built_with=built_with)], pip=RULES)
    return machine


def unpacked(machine: Machine, folder: Path) -> Path:
    with tarfile.open(machine.folder / "demo.tar") as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.mark.slow
def test_sources_come_as_wheels(locked: Machine, tmp_path: Path) -> None:
    ran = locked.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--json", status=0)
    document = valid(ran.out, "bundle")
    assert document["built"] == ["other", "slow"] and document["base"] is None
    assert "compil" not in ran.err and "installing builds" not in ran.err
    folder = unpacked(locked, tmp_path / "there")
    assert not (folder / "builds").exists() and not (folder / "sources").exists()
    names = sorted(path.name for path in (folder / "wheels").iterdir())
    assert [name.partition("-")[0] for name in names] == ["app", "builder", "lib", "other", "slow"]
    assert all(name.endswith(".whl") for name in names)
    # uv, and no compiler or build backend to be had
    env = {"PATH": f"{uv_alone(tmp_path)}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHON": sys.executable}
    made = subprocess.run(
        ["sh", str(folder / "install.sh"), str(tmp_path / "env")], capture_output=True, text=True, env=env
    )
    assert made.returncode == 0, made.stderr
    code = "from importlib.metadata import version; print(version('slow'), version('other'))"
    assert subprocess.check_output([tmp_path / "env/bin/python", "-c", code], text=True) == "1.0 1.0\n"
    # what was built is kept, so the next bundle is the same
    first = (locked.folder / "demo.tar").read_bytes()
    assert locked.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels").status == 0
    assert (locked.folder / "demo.tar").read_bytes() == first


@pytest.mark.slow
def test_a_base_comes_with_its_definition(locked: Machine, tmp_path: Path) -> None:
    base = write_base(locked.folder / "base", system(PYTHON))
    ran = locked.envspec(
        "bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--with-base", "--base", "./base", status=0
    )
    folder = unpacked(locked, tmp_path / "there")
    sums = subprocess.run(
        ["sha256sum", "-c", "--quiet", "SHA256SUMS", "BASE"], cwd=folder, capture_output=True, text=True
    )
    assert sums.returncode == 0, sums.stdout
    (row,) = json.loads((folder / "base/index.json").read_bytes())["manifests"]
    (given,) = json.loads((base / "index.json").read_bytes())["manifests"]
    assert row["digest"] == given["digest"] and f"base {row['digest']}\n" in ran.out
    for blob in (folder / "base/blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    text = (folder / "apptainer.def").read_text()
    assert text.count("Bootstrap: oci\nFrom: base\n") == 2 and row["digest"] in text
    for line in text.partition("%files\n")[2].partition("\n\n")[0].splitlines()[:-1]:
        assert (folder / line.split()[0]).exists(), line
    assert "base /opt" not in text and "wheels /opt/scratch/bundle/wheels\n" in text
    assert not (folder / "python").exists(), "the base has its own"


@pytest.mark.nightly
def test_a_build_of_python_comes_for_a_base_without(
    machine: Machine, index: Index, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    build = standalone_build(tmp_path_factory)
    index.add(APP, LIB)
    lock_build(machine, write_lock(machine, [pip_pin(APP), pip_pin(LIB)]), build)
    write_base(machine.folder / "base", system())
    with served(build, tmp_path / "builds") as mirror:
        machine.configure(f'python = "{mirror}"')
        ran = machine.envspec("bundle", SPEC, "-o", "demo.tar", "--with-base", "--base", "./base")
    assert ran.status == 0, ran.err
    folder = unpacked(machine, tmp_path / "there")
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS", "BASE"], cwd=folder, check=True)
    assert (folder / "python" / build.name).read_bytes() == build.read_bytes()
    text = (folder / "apptainer.def").read_text()
    assert "    python /opt/scratch/bundle/python\n" in text, "install.sh takes it from there"


@pytest.mark.slow
def test_what_a_base_lacks_is_said(locked: Machine) -> None:
    ran = locked.envspec("bundle", SPEC, "-o", "demo.tar", "--with-base", "--base", "./base")
    assert ran.status == 2 and "the base has no compilers for other, slow" in ran.error and "--build-wheels" in ran.hint
    ran = locked.envspec("bundle", SPEC, "-o", "demo.tar", "--base", "./base")
    assert ran.status == 2 and "--with-base" in ran.hint
    write_base(locked.folder / "base", system(PYTHON, {"libc6": "2.36"}))
    ran = locked.envspec("bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--with-base", "--base", "./base")
    assert ran.status == 2 and "lacks ca-certificates, tini" in ran.error and "--base-recipe" in ran.hint
    assert not (locked.folder / "demo.tar").exists()
