"""Releases whose METADATA admits what they can't use: their lock installs, and they import. On the real PyPI.

Those of older torch releases are in tests/e2e/test_mm_v21.py: their wheels on PyPI are CUDA's.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the newest Python that all of them have wheels for"),
]

TRAPS = [
    ("opencv-python-headless==4.5.5.64", "cv2", "numpy<2"),
    ("matplotlib==3.7.2", "matplotlib.pyplot", "numpy<2"),
    ("scikit-image==0.22.0", "skimage.measure", "numpy<2"),
    ("pandas==2.0.3", "pandas", "numpy<2"),
    ("pyarrow==14.0.2", "pyarrow", "numpy<2"),
    ("h5py==3.10.0", "h5py", "numpy<2"),
    ("onnxruntime==1.17.0", "onnxruntime", "numpy<2"),
    ("jaxlib==0.4.25", "jaxlib.xla_extension", "numpy<2"),
    ("numexpr==2.8.4", "numexpr", "numpy<2"),
    ("tables==3.9.2", "tables", "numpy<2"),
    ("imgaug==0.4.0", "imgaug", "numpy<2"),
    ("faiss-cpu==1.7.4", "faiss", "numpy"),
    ("gensim==4.3.2", "gensim", "scipy<1.13"),
    ("datasets==2.12.0", "datasets", "pyarrow<21"),
    ("tensorboard==2.15.2", "tensorboard.main", "setuptools<82"),
    ("gradio==4.44.1", "gradio", "huggingface-hub<1"),
    # in no table: read from their wheels
    ("scikit-learn==1.2.2", "sklearn.ensemble", "numpy<2"),
    ("librosa==0.9.2", "librosa", "setuptools<82"),
]

READ = "scikit-learn==1.2.2"


def run(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("asked", "module", "added"),
    [
        pytest.param(*one, marks=[pytest.mark.nightly] if number and one[0] != READ else [], id=one[0])
        for number, one in enumerate(TRAPS)
    ],
)
def test_what_is_locked_imports(tmp_path: Path, asked: str, module: str, added: str) -> None:
    spec = tmp_path / "trap.toml"
    spec.write_text(f'[env]\npython = "3.11"\n[pip]\ndependencies = ["{asked}"]\n[targets.t]\nplatform = "linux-64"\n')
    locked = run([sys.executable, "-m", "envspec", "lock", spec], tmp_path)
    assert locked.returncode == 0, locked.stderr
    assert f"{added} added, because" in locked.stderr
    prefix = tmp_path / "env"
    venv.create(prefix, with_pip=True)
    inside = prefix / "bin" / "python"
    # not what venv brought along: what the lock has
    run([inside, "-m", "pip", "uninstall", "-q", "-y", "setuptools"], tmp_path)
    requirements = tmp_path / "locks" / "trap" / "t" / "requirements.txt"
    done = run([inside, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", requirements], tmp_path)
    assert done.returncode == 0, done.stderr
    imported = run([inside, "-I", "-W", "ignore", "-c", f"import {module}"], tmp_path)
    assert imported.returncode == 0, imported.stderr
