"""Releases whose METADATA admits what they can't use: their lock installs, and they import. On the real PyPI.

Those with an older torch are `huge`: their wheels on PyPI are CUDA's, and run on a CPU.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter

pytestmark = [pytest.mark.nightly, pytest.mark.network]


@dataclass(frozen=True)
class Trap:
    """What a spec asks for, the code that fails without a correction, and what `lock` says of it."""

    asked: tuple[str, ...]
    code: str
    told: str
    python: str = "3.11"
    cuda: str = ""
    allow_source: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        cuda = f'cuda = "{self.cuda}"\ngpus = ["A100"]\n' if self.cuda else ""
        return (
            f'[env]\npython = "{self.python}"\n[pip]\ndependencies = {list(self.asked)}\n'
            f'allow-source = {list(self.allow_source)}\n[targets.t]\nplatform = "linux-64"\n{cuda}'
        )


TRAPS = (
    Trap(("opencv-python-headless==4.5.5.64",), "import cv2", "numpy<2 added"),
    Trap(("matplotlib==3.7.2",), "import matplotlib.pyplot", "numpy<2 added"),
    Trap(("matplotlib==3.5.3",), "import matplotlib.pyplot", "numpy<2 added", "3.10"),
    Trap(("scikit-image==0.22.0",), "import skimage.measure", "numpy<2 added"),
    Trap(("scikit-image==0.19.3",), "import skimage.measure", "numpy<2 added", "3.10"),
    Trap(("pandas==2.0.3",), "import pandas", "numpy<2 added"),
    Trap(("pyarrow==14.0.2",), "import pyarrow", "numpy<2 added"),
    Trap(("h5py==3.10.0",), "import h5py", "numpy<2 added"),
    Trap(("onnxruntime==1.17.0",), "import onnxruntime", "numpy<2 added"),
    Trap(("jaxlib==0.4.25",), "import jaxlib.xla_extension", "numpy<2 added"),
    Trap(("numexpr==2.8.4",), "import numexpr", "numpy<2 added"),
    Trap(("tables==3.9.2",), "import tables", "numpy<2 added"),
    Trap(("imgaug==0.4.0",), "import imgaug", "numpy<2 added"),
    Trap(("faiss-cpu==1.7.4",), "import faiss", "numpy added"),
    Trap(("gensim==4.3.2",), "import gensim", "scipy<1.13 added"),
    Trap(("datasets==2.12.0",), "import datasets", "pyarrow<21 added"),
    Trap(("tensorboard==2.15.2",), "import tensorboard.main", "setuptools<82 added"),
    Trap(("tensorboard==2.20.0", "setuptools"), "import tensorboard.main", "setuptools<82 added"),
    Trap(("gradio==4.44.1",), "import gradio", "huggingface-hub<1 added"),
    Trap(("diffusers==0.18.2",), "import diffusers", "huggingface-hub<0.26 added"),
    Trap(("diffusers==0.24.0",), "import diffusers", "huggingface-hub<0.26 added"),
    # in no table: read from their wheels
    Trap(("scikit-learn==1.2.2",), "import sklearn.ensemble", "numpy<2 added"),
    Trap(("librosa==0.9.2",), "import librosa", "setuptools<82 added"),
)

MODEL = "import transformers; transformers.AutoModel; from transformers import BertModel"
OF_OLDER_TORCH = (
    Trap(("torch==2.1.2", "numpy"), "import torch; torch.ones(2).numpy()", "numpy<2 added", cuda="12.1"),
    Trap(("torch==2.2.2", "numpy"), "import torch; torch.ones(2).numpy()", "numpy<2 added", cuda="12.1"),
    Trap(("torch==2.1.2", "transformers>=4.50"), MODEL, "transformers", cuda="12.1"),
    Trap(("torch==2.1.2", "transformers"), MODEL, "transformers", cuda="12.1"),
    Trap(("torch==2.1.2", "accelerate"), "import accelerate", "numpy<2 added", cuda="12.1"),
    Trap(("torch==2.1.2", "peft"), "import peft", "transformers", cuda="12.1"),
    Trap(("torch==2.1.2", "transformers==4.30.0", "peft"), "import peft", "peft 0.13.2 locked", cuda="12.1"),
    Trap(("torch==2.1.2", "sentence-transformers"), "import sentence_transformers", "transformers", cuda="12.1"),
    Trap(("torch==2.1.2", "sentence-transformers==2.2.2"), "import sentence_transformers", "huggingface-hub<0.26 added",
         cuda="12.1", allow_source=("sentence-transformers",)),
    Trap(("torch==2.1.2", "pytorch-lightning==1.9.4"), "import pytorch_lightning", "setuptools<82 added", cuda="12.1"),
    Trap(("torch==2.1.2", "deepspeed==0.14.3"), "import deepspeed", "numpy<2 added", cuda="12.1",
         allow_source=("deepspeed",)),
    Trap(("torch==2.1.2", "deepspeed==0.9.0"), "import deepspeed", "pydantic<2 added", cuda="12.1",
         allow_source=("deepspeed",)),
)  # fmt: skip


def name(trap: Trap) -> str:
    return " ".join(trap.asked)


def run(command: Sequence[str | Path], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("trap", TRAPS, ids=name)
def test_what_is_locked_imports(tmp_path: Path, trap: Trap) -> None:
    imports(trap, tmp_path)


@pytest.mark.huge
@pytest.mark.usefixtures("own_caches")
@pytest.mark.parametrize("trap", OF_OLDER_TORCH, ids=name)
def test_what_is_locked_with_an_older_torch_imports(tmp_path: Path, trap: Trap) -> None:
    imports(trap, tmp_path)


def imports(trap: Trap, tmp_path: Path) -> None:
    locked(trap, tmp_path)
    prefix = tmp_path / "env"
    environment(trap.python, prefix)
    inside = prefix / "bin" / "python"
    # not what venv brought along: what the lock has
    run([inside, "-m", "pip", "uninstall", "-q", "-y", "setuptools"], tmp_path)
    requirements = tmp_path / "locks" / "trap" / "t" / "requirements.txt"
    try:
        done = run(
            [inside, "-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "-r", requirements], tmp_path
        )
        assert done.returncode == 0, done.stderr
        imported = run([inside, "-I", "-W", "ignore", "-c", trap.code], tmp_path)
        assert imported.returncode == 0, imported.stderr
    finally:
        shutil.rmtree(prefix)  # several GB, of those with torch


@pytest.mark.parametrize("trap", OF_OLDER_TORCH, ids=name)
def test_what_older_torch_cannot_use_is_not_locked(tmp_path: Path, trap: Trap) -> None:
    locked(trap, tmp_path)


def locked(trap: Trap, folder: Path) -> None:
    spec = folder / "trap.toml"
    spec.write_text(trap.spec)
    done = run([sys.executable, "-m", "envspec", "lock", spec], folder)
    assert done.returncode == 0, done.stderr
    assert trap.told in done.stderr
    assert "because" in done.stderr


def environment(python: str, prefix: Path) -> None:
    """Make an environment of this Python, which only some traps' wheels are for."""
    try:
        interpreter = find_interpreter(python, os.environ)
    except ToolError as missing:
        pytest.skip(str(missing))
    made = run([interpreter, "-m", "venv", prefix], prefix.parent)
    assert made.returncode == 0, made.stderr
