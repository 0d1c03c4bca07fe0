"""A C++ extension of torch whose setup.py imports torch, built by `install` against the lock's torch 2.13.0."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.index import Index
from support.packages import sdist

pytestmark = [pytest.mark.slow, pytest.mark.network]

SETUP = """
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
extension = CppExtension("twice", ["twice.cpp"])
setup(name="twice", version="1.0", ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""
CODE = """
#include <torch/extension.h>
torch::Tensor twice(torch::Tensor x) { return x + x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("twice", &twice); m.attr("built_for") = TORCH_VERSION; }
"""
PROJECT = "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n"
SPEC = """
[env]
python = "3.11"
[pip]
dependencies = ["torch==2.13.0", "numpy", "twice"]
allow-source = ["twice"]
indexes = {{ own = "{url}" }}
sources = {{ twice = "own" }}
metadata = [{{ name = "twice", version = "1.0", dependencies = ["torch"] }}]
build-dependencies = {{ twice = ["torch", "ninja", "setuptools"] }}
[targets.cpu]
platform = "linux-64"
"""
ASK = "import torch, twice; print(twice.twice(torch.ones(1)).item(), twice.built_for, torch.__version__)"


@pytest.mark.nightly
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="made for Python 3.11")
@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="made for linux-64")
@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ isn't installed")
def test_an_extension_is_built_against_the_locks_torch(index: Index, tmp_path: Path) -> None:
    files = {"setup.py": SETUP, "twice.cpp": CODE, "pyproject.toml": PROJECT}
    index.add(sdist("twice", "1.0", static=False, files=files))
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "demo.toml").write_text(SPEC.format(url=index.url))
    env = {**os.environ, "ENVSPEC_CACHE_DIR": str(tmp_path / "cache")}

    def envspec(*arguments: str) -> None:
        command = [sys.executable, "-m", "envspec", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 3 and "torch" not in done.stderr.partition("hint:")[0]:
            pytest.skip(f"no index or folder that pip is configured with: {done.stderr}")
        assert done.returncode == 0, done.stderr

    envspec("lock", "specs/demo.toml")
    envspec("install", "specs/demo.toml", "--prefix", "prefix")
    done = subprocess.run([tmp_path / "prefix" / "bin" / "python", "-c", ASK], capture_output=True, text=True)
    assert done.stdout.split() == ["2.0", "2.13.0", "2.13.0+cpu"], done.stderr


PLAIN = """
import torch
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
with open("builder.py", "w") as module:
    module.write(f"built_with = {torch.__version__!r}")
setup(name="twice", version="1.0", py_modules=["builder"], cmdclass={"build_ext": BuildExtension})
"""
UNTOLD = """
[env]
python = "3.11"
[pip]
dependencies = ["torch==2.13.0", "twice"]
indexes = {{ own = "{url}" }}
sources = {{ twice = "own" }}
[targets.cpu]
platform = "linux-64"
"""


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="made for Python 3.11")
@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="made for linux-64")
def test_what_allow_needed_writes_is_all_that_a_build_needs(index: Index, tmp_path: Path) -> None:
    """A source that declares nothing, and imports torch."""
    index.add(sdist("twice", "1.0", "torch", files={"setup.py": PLAIN, "pyproject.toml": ""}))
    spec = tmp_path / "specs" / "demo.toml"
    spec.parent.mkdir()
    spec.write_text(UNTOLD.format(url=index.url))
    env = {**os.environ, "ENVSPEC_CACHE_DIR": str(tmp_path / "cache")}

    def envspec(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "envspec", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    refused = envspec("lock", "specs/demo.toml")
    if refused.returncode == 3:
        pytest.skip(f"no index or folder that pip is configured with: {refused.stderr}")
    line = 'build-dependencies = { twice = ["torch", "ninja", "setuptools", "wheel"] }'
    assert refused.returncode == 1 and line in refused.stderr, refused.stderr
    for command in (
        ["lock", "specs/demo.toml", "--allow-needed"],
        ["install", "specs/demo.toml", "--prefix", "prefix"],
    ):
        done = envspec(*command)
        assert done.returncode == 0, done.stderr
    assert line in spec.read_text()
    asked = [str(tmp_path / "prefix/bin/python"), "-c", "import builder; print(builder.built_with)"]
    assert subprocess.run(asked, capture_output=True, text=True).stdout.split() == ["2.13.0+cpu"]
