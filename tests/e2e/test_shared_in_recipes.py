"""Wheels that have one path with different content: every recipe leaves what `install` leaves.

Tiny wheels of a loopback index, put together by the real tools: buildah, Apptainer, Nix, and envspec itself.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.base_image import PACKAGES, system, text, write_base
from support.index import Index
from support.machine import Machine
from support.nix import Nix
from support.oci import opened_builder, skip_without
from support.packages import wheel
from support.sif import built_sif, skip_without_tools

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
SPEC = f"""\
[env]
name = "demo"
python = "{PYTHON}"
[pip]
dependencies = ["aa", "cc", "zz"]
indexes = {{ own = "INDEX" }}
sources = {{ aa = "own", bb = "own", cc = "own", zz = "own" }}
[targets.cpu]
platform = "linux-64"
[image]
python = "base"
"""


@dataclass(frozen=True)
class Project:
    machine: Machine
    index: Index
    recipe: Path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The locked spec with its recipes."""
    folder = tmp_path_factory.mktemp("shared")
    with Index() as index:
        for name, requires in (("aa", ["bb"]), ("bb", []), ("cc", []), ("zz", [])):
            command = f"{name}-1.0.data/scripts/x"
            files = {"shared.py": f"who = {name!r}\n".encode()} | {command: f"#!python\nwho = {name!r}\n".encode()}
            index.add(wheel(name, "1.0", *requires, files=files))
        machine = Machine(folder, index.url)
        spec = machine.spec(SPEC.replace("INDEX", index.url))
        for words in (["lock", spec], ["export", spec, "--format", "all", "-o", str(folder / "recipe")]):
            machine.envspec(*words, status=0)
        yield Project(machine, index, folder / "recipe")
        machine.close()


@pytest.fixture(scope="module")
def right(project: Project) -> str:
    """What `install` leaves: the module's owner, and the command's."""
    project.machine.envspec("install", "specs/demo.toml", "--prefix", "env", status=0)
    prefix = project.machine.folder / "env"
    return who(prefix, prefix / f"lib/python{PYTHON}/site-packages")


def who(prefix: Path, site: Path) -> str:
    return " ".join(path.read_text().split("'")[-2] for path in (site / "shared.py", prefix / "bin/x"))


def test_a_dockerfile(project: Project, right: str, tmp_path: Path) -> None:
    skip_without()
    with opened_builder(tmp_path, project.recipe, "cpu", "http://127.0.0.1:9") as builder:
        builder.build("localhost/shared")
        container = builder("from", "localhost/shared").strip()
        tree = Path(builder("mount", container).strip())
        assert who(tree / "opt/env", tree / f"opt/env/lib/python{PYTHON}/site-packages") == right


def test_a_sif(project: Project, right: str, tmp_path: Path) -> None:
    skip_without_tools()
    recipe = {
        path.relative_to(project.recipe).as_posix(): path.read_text()
        for path in sorted(project.recipe.rglob("*"))
        if path.is_file()
    }
    sif = built_sif(recipe, tmp_path)
    code = f"cat /opt/env/lib/python{PYTHON}/site-packages/shared.py /opt/env/bin/x"
    ran = subprocess.run(["apptainer", "exec", str(sif), "sh", "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert " ".join(ran.stdout.split("'")[1::2]) == right


def test_an_image_straight_from_the_lock(project: Project, right: str) -> None:
    machine = project.machine
    write_base(machine.folder / "base", system(PYTHON, PACKAGES))
    machine.envspec("image", "specs/demo.toml", "--base", "./base", "-o", "out", status=0)
    found = [
        text(machine.folder / "out", "rest", f"opt/env/{path}").split("'")[-2]
        for path in (f"lib/python{PYTHON}/site-packages/shared.py", "bin/x")
    ]
    assert " ".join(found) == right


@pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed")
def test_a_flake(project: Project, right: str, tmp_path: Path) -> None:
    nix = Nix(tmp_path / "nix")
    try:
        nix.nixpkgs({"pypi": project.index.url, "pytorch": project.index.url, "pythons": [PYTHON]})
        folder = shutil.copytree(project.recipe, tmp_path / "flake")
        (folder / "indexes.nix").write_text(f'{{ own = "{project.index.origin}/files"; }}\n')
        result = nix.build("cpu", cwd=folder)
        assert who(result, result / f"lib/python{PYTHON}/site-packages") == right
    finally:
        nix.close()
