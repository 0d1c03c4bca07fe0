"""Images of real wheels for x86-64 and aarch64, made on this machine: beside a native installation, beside what uv lays
out for the other platform, and by two other Pythons."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from support.base_image import system, write_base, write_index
from support.oci import envspec, lock_spec
from support.other_python import envspec_of
from uv import find_uv_bin

from envspec.image.layer import unpack

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

PYTHON = "3.11"
SPEC = f"""[env]
name = "both"
python = "{PYTHON}"
[pip]
dependencies = ["numpy==2.3.4", "pyyaml", "markupsafe", "click", "pygments"]
[targets.x86]
platform = "linux-64"
[targets.arm]
platform = "linux-aarch64"
[image]
python = "base"
"""
MACHINES = {"x86": "x86_64", "arm": "aarch64"}
OWN = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")
"""Of each installer's own."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    lock_spec(folder, "both", SPEC)
    layouts = {one: write_base(folder / one, system(PYTHON), machine=one) for one in ("amd64", "arm64")}
    write_index(folder / "base", layouts)
    envspec(folder, "image", "specs/both.toml", "--base", "./base", "-o", "image.tar")
    return folder


def site_packages(project: Path, machine: str) -> dict[str, bytes]:
    """The files of an image's environment, by path below its site-packages."""
    found = {}
    with tarfile.open(project / "image.tar") as archive:

        def read(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        def blob(digest: str) -> bytes:
            return read(f"blobs/sha256/{digest.removeprefix('sha256:')}")

        (top,) = json.loads(read("index.json"))["manifests"]
        rows = json.loads(blob(top["digest"]))["manifests"]
        (row,) = (one for one in rows if one["platform"]["architecture"] == machine)
        for layer in json.loads(blob(row["digest"]))["layers"]:
            if layer.get("annotations", {}).get("envspec.layer") != "rest":
                continue
            packed = archive.extractfile(f"blobs/sha256/{layer['digest'].removeprefix('sha256:')}")
            assert packed is not None
            with tarfile.open(fileobj=unpack("zstd", packed), mode="r|") as files:
                for member in files:
                    content = files.extractfile(member) if member.isfile() else None
                    path = member.name.partition("/site-packages/")[2]
                    if content and path:
                        found[path] = content.read()
    return {path: content for path, content in found.items() if path.rpartition("/")[2] not in OWN}


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name not in OWN)
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {path: content for path, content in found.items() if not path.startswith(("bin/", "_virtualenv", "."))}


def same(image: dict[str, bytes], installed: dict[str, bytes]) -> None:
    assert len(image) > 500
    # numpy's wheel has a single file of bytecode
    paths = {path for path in {*image, *installed} if "/__pycache__/" not in path}
    assert {path for path in paths if image.get(path) != installed.get(path)} == set()


def test_the_image_has_the_files_of_a_native_installation(project: Path) -> None:
    target = {machine: name for name, machine in MACHINES.items()}[os.uname().machine]
    envspec(project, "install", "specs/both.toml", "--target", target, "--prefix", "env")
    site = project / "env" / "lib" / f"python{PYTHON}" / "site-packages"
    same(site_packages(project, {"x86": "amd64", "arm": "arm64"}[target]), files_of(site))


@pytest.mark.parametrize(("target", "machine"), [("x86", "amd64"), ("arm", "arm64")])
def test_the_image_has_the_files_that_uv_lays_out_for_its_platform(
    project: Path, tmp_path: Path, target: str, machine: str
) -> None:
    requirements = project / "locks" / "both" / target / "requirements.txt"
    platform = ("--python-platform", f"{MACHINES[target]}-manylinux_2_28", "--python-version", PYTHON)
    command = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    subprocess.run([*command, *platform, "--target", str(tmp_path), "-r", str(requirements)], check=True)
    same(site_packages(project, machine), files_of(tmp_path))


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_another_python_makes_the_same_index(project: Path, tmp_path: Path, version: str) -> None:
    program = [str(envspec_of(version, tmp_path / "env"))]
    words = ("image", "specs/both.toml", "--base", "./base", "-o", str(tmp_path / "image.tar"))
    before = os.umask(0o077)
    try:
        envspec(project, *words, program=program, TZ="Asia/Tokyo", LC_ALL="C")
    finally:
        os.umask(before)
    assert (tmp_path / "image.tar").read_bytes() == (project / "image.tar").read_bytes()
