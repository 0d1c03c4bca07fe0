"""torchaudio beside torch, in locks of real packages from the index that this machine's own settings name as PyPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.machine import ROOT

from envspec.lock.read import load

pytestmark = [pytest.mark.network, pytest.mark.e2e]


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
