"""Locks of real packages from the index that this machine's own settings name as PyPI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.machine import ROOT

from envspec.lock.model import Lock
from envspec.lock.read import load

pytestmark = [pytest.mark.network, pytest.mark.e2e]

SPEC = """
[env]
python = "3.12"
[pip]
dependencies = ["torch==2.9.1", "numpy"]
[targets.cu126-volta]
platform = "linux-64"
cuda = "12.6"
gpus = ["V100"]
[targets.cu128-hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]
[targets.cu128-grace]
platform = "linux-aarch64"
cuda = "12.8"
gpus = ["GH200"]
[targets.cpu]
platform = "linux-64"
"""


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    folder = tmp_path_factory.mktemp("real")
    (folder / "specs").mkdir()
    (folder / "specs" / "demo.toml").write_text(SPEC)
    program = "from envspec.cli.main import main; main()"
    command = [sys.executable, "-c", program, "lock", "specs/demo.toml"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ENVSPEC_CACHE_DIR": str(folder / "cache")}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return load(Path(folder / "locks" / "demo" / "envspec.lock"))


@pytest.mark.parametrize(
    ("target", "version", "index"),
    [
        ("cu126-volta", "2.9.1+cu126", "pytorch/cu126"),
        ("cu128-hopper", "2.9.1", "pypi"),
        ("cu128-grace", "2.9.1+cu128", "pytorch/cu128"),
        ("cpu", "2.9.1+cpu", "pytorch/cpu"),
    ],
)
def test_torch_is_the_right_build(lock: Lock, target: str, version: str, index: str) -> None:
    found = lock.target(target)
    assert found is not None
    torch = found.pin("torch")
    assert torch is not None and (torch.version, torch.index) == (version, index)


def test_nothing_of_cuda_is_in_the_cpu_target(lock: Lock) -> None:
    found = lock.target("cpu")
    assert found is not None
    assert [pin.name for pin in found.pins if pin.name.startswith(("nvidia-", "triton"))] == []


def test_all_targets_share_their_versions(lock: Lock) -> None:
    versions: dict[str, set[str]] = {}
    for target in lock:
        for pin in target.pins:
            if not pin.name.startswith(("nvidia-", "torch")):
                versions.setdefault(pin.name, set()).add(pin.version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
    assert "numpy" in versions


def test_every_package_has_a_file_with_size_and_licence(lock: Lock) -> None:
    for target in lock:
        for pin in target.pins:
            assert pin.artifact is not None and len(pin.artifact.sha256) == 64, pin.name
    numpy = lock.targets[0].pin("numpy")
    assert numpy is not None and numpy.licence and "BSD" in numpy.licence
