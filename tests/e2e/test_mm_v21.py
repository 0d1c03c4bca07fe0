"""The corrections, proved on the stack they are for: mm-v2.1, installed as its users do, imports and compiles; without
them it does neither.

Several GB of wheels: marked `huge`. The shipped lock is for Python 3.10: one is made for the Python that runs the test.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from uv import find_uv_bin

pytestmark = [pytest.mark.huge, pytest.mark.slow, pytest.mark.network, pytest.mark.usefixtures("own_caches")]

EXTENSION = "import torch.utils.cpp_extension"
WORKS = (
    f"import torch, triton; assert torch.ones(2).numpy().sum() == 2; {EXTENSION}; import transformers, deepspeed, clip"
)


def run(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


def test_imports_work_with_the_corrections_and_fail_without(root: Path, tmp_path: Path) -> None:
    if sys.version_info[:2] not in ((3, 10), (3, 11)):
        pytest.skip("torch 2.1 has wheels up to Python 3.11")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = (root / "specs" / "mm-v2.1.toml").read_text().replace('python = "3.10"', f'python = "{python}"')
    spec = tmp_path / "mm-v2.1.toml"
    spec.write_text(text)
    envspec = [sys.executable, "-m", "envspec"]
    locked = run([*envspec, "lock", spec, "--target", "cu121"], tmp_path)
    assert locked.returncode == 0, locked.stderr
    assert "numpy<2 added" in locked.stderr and "setuptools<70 added" in locked.stderr
    prefix = tmp_path / "env"
    done = run([*envspec, "install", spec, "--target", "cu121", "--prefix", prefix], tmp_path)
    assert done.returncode == 0, done.stderr
    inside = prefix / "bin" / "python"
    assert "No module named 'pip'" in run([inside, "-c", "import pip"], tmp_path).stderr, "nothing but the lock's"
    works = run([inside, "-c", WORKS], tmp_path)
    assert works.returncode == 0, works.stderr

    uv: list[str | Path] = [find_uv_bin(), "pip"]
    assert run([*uv, "uninstall", "--python", inside, "setuptools"], tmp_path).returncode == 0
    for module in ("triton", "torch.utils.cpp_extension"):
        assert "No module named 'setuptools'" in run([inside, "-c", f"import {module}"], tmp_path).stderr
    numpy_2 = run([*uv, "install", "--python", inside, "--no-deps", "numpy==2.2.6"], tmp_path)
    assert numpy_2.returncode == 0, numpy_2.stderr
    assert "Numpy is not available" in run([inside, "-c", "import torch; torch.ones(2).numpy()"], tmp_path).stderr
    assert run([inside, "-c", "import deepspeed"], tmp_path).returncode
