"""The corrections, proved on the stack they are for: mm-v2.1 installs and both imports work; without them neither does.

Several GB of wheels: marked `huge`. The shipped lock is for Python 3.10: one is made for the Python that runs the test.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = [pytest.mark.huge, pytest.mark.slow, pytest.mark.network]

WORKS = "import torch; assert torch.ones(2).numpy().sum() == 2; import transformers; import deepspeed; print('works')"


def run(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


def test_imports_work_with_the_corrections_and_fail_without(root: Path, tmp_path: Path) -> None:
    if sys.version_info[:2] not in ((3, 10), (3, 11)):
        pytest.skip("torch 2.1 has wheels up to Python 3.11")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    text = (root / "specs" / "mm-v2.1.toml").read_text().replace('python = "3.10"', f'python = "{python}"')
    spec = tmp_path / "mm-v2.1.toml"
    spec.write_text(text)
    locked = run([sys.executable, "-m", "envspec", "lock", spec, "--target", "cu121"], tmp_path)
    assert locked.returncode == 0, locked.stderr
    assert "numpy<2 added" in locked.stderr
    requirements = tmp_path / "locks" / "mm-v2.1" / "cu121" / "requirements.txt"
    prefix = tmp_path / "env"
    venv.create(prefix, with_pip=True)
    inside = prefix / "bin" / "python"
    install: list[str | Path] = [inside, "-m", "pip", "install", "-q", "--no-deps"]
    done = run([*install, "--require-hashes", "-r", requirements], tmp_path)
    assert done.returncode == 0, done.stderr
    works = run([inside, "-c", WORKS], tmp_path)
    assert works.stdout.strip().endswith("works"), works.stderr

    numpy_2 = run([*install, "numpy==2.2.6"], tmp_path)
    assert numpy_2.returncode == 0, numpy_2.stderr
    assert "Numpy is not available" in run([inside, "-c", "import torch; torch.ones(2).numpy()"], tmp_path).stderr
    assert run([inside, "-c", "import deepspeed"], tmp_path).returncode
