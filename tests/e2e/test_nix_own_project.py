"""The spec's own project in a Nix environment, made by another flake with `lib.environment`."""

import shutil
import subprocess
from pathlib import Path

import pytest
from flakes import PYTHON, files as files, host, machine as machine, pin
from msgspec.structs import replace
from support.nix import Files, Nix
from support.packages import source_files, wheel

from envspec.base.errors import Place
from envspec.export.folder import render_spec
from envspec.export.make import make_spec_plan
from envspec.export.plan import encode
from envspec.lock.model import Lock, LockedTarget, SoundLock, SpecInputs, TargetInputs
from envspec.spec.model import Located, Project
from envspec.spec.parse import parse_spec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed"),
]

SPEC = "[env]\nname = 'small'\npython = '{}'\n[pip]\ndependencies = ['app']\n[targets.cpu]\nplatform = 'linux-64'\n"


def test_it_is_built_and_installed_last(machine: Nix, files: Files, tmp_path: Path) -> None:
    backend = source_files("own", "1.0")["backend.py"].replace("writestr(path,", "writestr(zipfile.ZipInfo(path),")
    app, maker = wheel("app", "1.0"), wheel("maker", "1.0", files={"maker.py": backend.encode()})
    files.content = {dist.file: dist.content for dist in (app, maker)}
    place = Place("pyproject.toml")
    own = Project(".", "pyproject.toml", "own", (Located("app", place),), (Located("maker", place),))
    spec = replace(parse_spec(SPEC.format(PYTHON), "small.toml"), project=own)
    inputs = TargetInputs("linux-64", PYTHON, "2.28", requirements=("app", "maker"))
    lock = Lock("small", SpecInputs(), (LockedTarget("cpu", inputs, (pin(app, "pypi"), pin(maker, "pypi"))),))
    recipes, project = tmp_path / "flake", tmp_path / "project"
    for name, text in render_spec(make_spec_plan(spec, SoundLock.of(lock)), "nix").items():
        (recipes / name).parent.mkdir(parents=True, exist_ok=True)
        (recipes / name).write_bytes(encode(text))
    project.mkdir()
    (project / "pyproject.toml").write_text(
        "[build-system]\nrequires = ['maker']\nbuild-backend = 'maker'\n[project]\nname = 'own'\nversion = '1.0'\n"
    )
    machine.nixpkgs(host(files))
    pkgs = f'(builtins.getFlake "path:{machine.base}/nixpkgs").legacyPackages.x86_64-linux'
    function = f'give: (give {{ pkgs = {pkgs}; target = "cpu"; project = {project}; }}).drvPath'
    ran = machine.flake(
        "eval", "--raw", "--impure", f"path:{recipes}#lib.environment", "--apply", function, cwd=recipes
    )
    assert ran.returncode == 0, ran.stderr
    link = tmp_path / "result"
    built = machine.run("build", "-o", link, ran.stdout.strip())
    assert built.returncode == 0, built.stderr
    result = link.resolve()
    code = "import own, app; from importlib.metadata import version; print(version('own'))"
    seen = subprocess.run([result / "bin/python", "-I", "-c", code], check=True, capture_output=True, text=True)
    assert seen.stdout == "1.0\n" and not list(result.rglob("direct_url.json"))
