"""Real packages whose newest release needs a source, beside uv's own answer of the same moment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.machine import ROOT
from uv import find_uv_bin

from envspec.lock.read import load

pytestmark = [pytest.mark.network, pytest.mark.e2e]

NEED_SOURCES = {
    "hydra-core": (),
    "hydra-core>=1.3.2": (),
    "iopath": ("iopath",),
    "fvcore": ("fvcore", "iopath"),
    "omegaconf<2.4": (),
    "wandb": (),
    "rouge-score": ("rouge-score",),
    "pycocotools": (),
}
"""What to lock, and what of it only source is on offer of whose build runs code of its own (November 2026)."""
AGAIN = ("hydra-core>=1.3.2", "fvcore", "omegaconf<2.4")
"""Of these, what has another one's sources: hydra-core needs omegaconf and ANTLR's runtime, fvcore needs iopath."""


def lock(folder: Path, requirement: str, *allowed: str) -> subprocess.CompletedProcess[str]:
    (folder / "specs").mkdir(exist_ok=True)
    listed = ", ".join(f'"{name}"' for name in allowed)
    (folder / "specs" / "demo.toml").write_text(
        f'[env]\npython = "3.11"\n[pip]\ndependencies = ["{requirement}"]\nallow-source = [{listed}]\n'
        '[targets.cpu]\nplatform = "linux-64"\n'
    )
    program = "from envspec.cli.main import main; main()"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ENVSPEC_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", program, "lock", "specs/demo.toml"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


def of_uv(folder: Path, requirement: str) -> dict[str, str]:
    (folder / "in.txt").write_text(requirement)
    command = [
        find_uv_bin(), "pip", "compile", "in.txt", "--quiet", "--no-header", "--no-annotate", "--no-config",
        "--python", sys.executable, "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28",
    ]  # fmt: skip
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return dict(line.split("==") for line in ran.stdout.split())


@pytest.mark.by_commit(3)
@pytest.mark.parametrize(
    "requirement", [pytest.param(name, marks=[pytest.mark.nightly] if name in AGAIN else []) for name in NEED_SOURCES]
)
def test_uvs_own_answer_once_what_is_needed_is_allowed(tmp_path: Path, requirement: str) -> None:
    needed = NEED_SOURCES[requirement]
    first = lock(tmp_path, requirement)
    if needed:
        assert first.returncode == 1
        named = re.search(r"allow-source = \[([^]]*)\]", first.stderr)
        assert named and re.findall(r'"([^"]+)"', named[1]) == list(needed)
        assert not (tmp_path / "locks" / "demo" / "envspec.lock").exists()
    ran = lock(tmp_path, requirement, *needed) if needed else first
    assert ran.returncode == 0, ran.stderr
    (target,) = load(tmp_path / "locks" / "demo" / "envspec.lock")
    assert {pin.name: pin.version for pin in target.pins} == of_uv(tmp_path, requirement)


# torchaudio beside torch, in locks of real packages from the index that this machine's own settings name as PyPI.


def locked(folder: Path, python: str, dependencies: str, targets: str) -> dict[str, dict[str, str]]:
    """The versions of the torch family that a real lock has, by target."""
    (folder / "specs").mkdir()
    spec = f'[env]\npython = "{python}"\n[pip]\ndependencies = {dependencies}\n{targets}'
    (folder / "specs" / "demo.toml").write_text(spec)
    command = [sys.executable, "-c", "from envspec.cli.main import main; main()", "lock", "specs/demo.toml"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ENVSPEC_CACHE_DIR": str(folder / "cache")}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    family = ("torch", "torchaudio", "torchvision")
    found = load(folder / "locks" / "demo" / "envspec.lock")
    return {target.name: {p.name: p.version for p in target.pins if p.name in family} for target in found}


def cuda(name: str, version: str) -> str:
    return f'[targets.{name}]\nplatform = "linux-64"\ncuda = "{version}"\n'


CPU = '[targets.cpu]\nplatform = "linux-64"\n'


def test_torchaudio_without_a_version(tmp_path: Path) -> None:
    targets = CPU + cuda("cu126", "12.6") + cuda("cu128", "12.8")
    assert locked(tmp_path, "3.11", '["torch==2.10.0", "torchaudio"]', targets) == {
        "cpu": {"torch": "2.10.0+cpu", "torchaudio": "2.10.0+cpu"},
        "cu126": {"torch": "2.10.0+cu126", "torchaudio": "2.10.0+cu126"},
        "cu128": {"torch": "2.10.0", "torchaudio": "2.10.0"},
    }


def test_torchaudio_that_speechbrain_pulls_in(tmp_path: Path) -> None:
    targets = cuda("cu118", "11.8") + cuda("cu121", "12.1")
    assert locked(tmp_path, "3.10", '["torch==2.1.2", "speechbrain"]', targets) == {
        "cu118": {"torch": "2.1.2+cu118", "torchaudio": "2.1.2+cu118"},
        "cu121": {"torch": "2.1.2", "torchaudio": "2.1.2"},
    }


def test_the_family_without_any_version(tmp_path: Path) -> None:
    """As ComfyUI's own file asks for it."""
    found = locked(tmp_path, "3.12", '["torch", "torchvision", "torchaudio"]', cuda("t", "13.0"))["t"]
    assert set(found) == {"torch", "torchvision", "torchaudio"}
    assert tuple(map(int, found["torch"].split("."))) >= (2, 14)
    assert tuple(map(int, found["torchaudio"].split("."))) >= (2, 11)
