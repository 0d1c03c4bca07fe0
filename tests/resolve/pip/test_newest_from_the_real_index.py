"""Real packages whose newest release needs a source, beside uv's own answer of the same moment."""

from __future__ import annotations

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
    "hydra-core": ("antlr4-python3-runtime",),
    "hydra-core>=1.3.2": ("antlr4-python3-runtime",),
    "iopath": ("iopath",),
    "fvcore": ("fvcore", "iopath"),
    "omegaconf<2.4": ("antlr4-python3-runtime",),
    "wandb": (),
    "rouge-score": ("rouge-score",),
    "pycocotools": (),
}
"""What to lock, and what of it only source is on offer of (November 2026)."""
AGAIN = ("hydra-core>=1.3.2", "iopath", "omegaconf<2.4")
"""Of these, what another one brings in: hydra-core needs omegaconf and ANTLR's runtime, fvcore needs iopath."""


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


@pytest.mark.parametrize(
    "requirement",
    [pytest.param(name, marks=[pytest.mark.nightly] if name in AGAIN else []) for name in NEED_SOURCES],
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
