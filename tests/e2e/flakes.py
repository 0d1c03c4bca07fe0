"""A Nix of its own, and what the flakes are built from."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from support.nix import Files, Nix
from support.packages import Dist

from envspec.lock.model import Artifact, Lock, Pin
from envspec.lock.read import load

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture
def files() -> Iterator[Files]:
    served = Files()
    yield served
    served.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Nix]:
    made = Nix(tmp_path / "nix")
    yield made
    made.close()


@pytest.fixture
def checkout(tmp_path: Path, root: Path, project_files: tuple[Path, ...]) -> Path:
    """What of the repository its flake reads."""
    folder = tmp_path / "checkout"
    for file in project_files:
        if (
            file.parts[0] in ("check", "envspec", "flake.nix", "pyproject.toml", "README.md", "LICENSE")
            or file.name == "envspec.lock"
            or file.parts[:2] in (("recipes", "cpu-py311"), ("recipes", "_shared"))
        ):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / file, folder / file)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def locks(root: Path) -> dict[str, Lock]:
    return {path.parent.name: load(path) for path in sorted(root.glob("locks/*/envspec.lock"))}


def fetched(machine: Nix, drv: str) -> dict[str, tuple[str, str]]:
    """What a derivation downloads: the file's name in its URL → its hash and the index, from the stand-in's host."""
    ran = machine.run("show-derivation", "--recursive", drv)
    assert ran.returncode == 0, ran.stderr
    found = {}
    for derivation in json.loads(ran.stdout).values():
        env = derivation["env"]
        if "url" in env:
            index = env["url"].partition("//")[2].partition(".invalid/")[0]
            found[unquote(env["url"]).rpartition("/")[2]] = (env["outputHash"], index)
    return found


def pin(dist: Dist, index: str, **more: Any) -> Pin:
    return Pin("pip", dist.name, dist.version, index, Artifact(dist.file, dist.sha256), **more)


def host(files: Files) -> dict[str, object]:
    return {"pypi": f"{files.url}/pypi", "pytorch": f"{files.url}/whl", "pythons": [PYTHON]}
