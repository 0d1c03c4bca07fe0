"""Real wheels of PyPI, asked by ranges: what they say, and what it costs."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from envspec.artifacts.wheel_reader import Question, WheelReader, WheelSays, WheelStore
from envspec.binaries.build_notes import BuildNotes
from envspec.facts.torch_builds import builds, pypi_variant
from envspec.net.fetch import Fetcher, Reply
from envspec.net.file_store import FileStore
from envspec.resolve.uv.answer import FoundFile, read_pylock

pytestmark = pytest.mark.network


@cache
def found(requirement: str, python: str) -> FoundFile:
    """The wheel for linux-64 and a Python, as the index lists it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--no-deps", "--format=pylock.toml", "--quiet"]
    command += ["--only-binary=:all:", f"--python-version={python}", "--python-platform=x86_64-manylinux_2_28", "-"]
    run = subprocess.run(command, input=requirement, capture_output=True, text=True, check=True)
    (package,) = read_pylock(run.stdout)
    fitting = (f"-cp{python.replace('.', '')}-", "-abi3-", "-py3-", "-none-")
    wheels = [file for file in package.files if file.file.endswith(("x86_64.whl", "-any.whl"))]
    return next(file for tag in fitting for file in wheels if tag in file.file and "musl" not in file.file)


class CountingFetcher(Fetcher):
    """A fetcher that counts the bytes of the ranges that came."""

    fetched = 0

    def range(self, url: str, start: int | None, length: int) -> Reply:
        reply = super().range(url, start, length)
        self.fetched += len(reply.body)
        return reply


@pytest.fixture
def reader(tmp_path: Path) -> WheelReader:
    fetcher = CountingFetcher(credentials={}, env=dict(os.environ))
    return WheelReader(WheelStore(tmp_path), FileStore(tmp_path / "artifacts", fetcher))


def asked(reader: WheelReader, requirement: str, question: Question, python: str) -> tuple[WheelSays, int]:
    """What a wheel says, and how many bytes of it came."""
    says = reader.ask(found(requirement, python), "pypi", frozenset({question}))
    assert isinstance(says, WheelSays), says
    assert isinstance(reader.files.fetcher, CountingFetcher)
    return says, reader.files.fetcher.fetched


@pytest.mark.parametrize(
    ("requirement", "python", "expected", "most"),
    [
        ("pandas==2.0.3", "3.11", 1, 1.5),
        ("pandas==2.2.2", "3.11", 2, 1),
        ("matplotlib==3.7.5", "3.11", 1, 3),
        ("matplotlib==3.9.2", "3.11", 2, 3),
        ("scikit-image==0.19.3", "3.10", 1, 1.5),
        ("scikit-image==0.24.0", "3.11", 2, 1.5),
        ("h5py==3.10.0", "3.11", 1, 3),
        ("h5py==3.12.1", "3.11", 2, 3),
        ("opencv-python==4.5.5.64", "3.11", 1, 32),
        ("opencv-python==4.10.0.84", "3.11", 2, 32),
        ("pyarrow==14.0.2", "3.11", 1, 12),
        ("onnxruntime==1.17.3", "3.11", 1, 12),
        ("scipy==1.9.3", "3.11", 1, 2),
        ("contourpy==1.1.1", "3.11", None, 1),  # pybind11 looks NumPy up as it runs
        ("tokenizers==0.20.0", "3.11", None, 4),  # so does the numpy crate
        ("gensim==4.3.2", "3.11", None, 5),  # Cython's cimport alone
    ],
)
def test_the_numpy_that_a_wheel_was_compiled_for(
    reader: WheelReader, requirement: str, python: str, expected: int | None, most: float
) -> None:
    says, fetched = asked(reader, requirement, "numpy", python)
    assert says.numpy is not None and says.numpy.complete
    assert says.numpy.built_for == expected
    assert fetched <= most * 1e6


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("pytorch-lightning==1.9.4", ("lightning_fabric", "pytorch_lightning")),
        ("tensorboard==2.20.0", ("tensorboard.data.server_ingester", "tensorboard.default")),
        ("tensorboard==2.21.0", ()),
        ("librosa==0.9.2", ("librosa.util.files",)),
        ("setuptools==81.0.0", ()),
        ("sympy==1.14.0", ()),
    ],
)
def test_the_modules_that_import_pkg_resources(
    reader: WheelReader, requirement: str, expected: tuple[str, ...]
) -> None:
    says, fetched = asked(reader, requirement, "pkg_resources", "3.11")
    assert says.pkg_resources is not None and says.pkg_resources.complete
    assert says.pkg_resources.modules == expected
    assert fetched <= 7e6


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("xformers==0.0.33", BuildNotes("13.0", member="xformers/cpp_lib.json")),
        ("onnxruntime-gpu==1.22.0", BuildNotes("12.2", member="onnxruntime/capi/build_and_package_info.py")),
    ],
)
def test_what_a_neighbour_of_torch_notes(reader: WheelReader, requirement: str, expected: BuildNotes) -> None:
    says, fetched = asked(reader, requirement, "notes", "3.11")
    assert says.notes == expected
    assert fetched <= 1e6


@pytest.mark.parametrize(("version", "python"), [("2.15.0", "3.12"), ("2.9.1", "3.12"), ("2.1.0", "3.11")])
def test_the_flags_of_torch_are_those_of_the_table(reader: WheelReader, version: str, python: str) -> None:
    says, fetched = asked(reader, f"torch=={version}", "code", python)
    (row,) = builds(version, platform="linux-64", variant=pypi_variant(version, "linux-64"))
    assert says.code is not None and says.code.listed
    assert [(one.sm, one.ptx) for one in says.code.libraries] == [(row.sm, row.ptx)]
    assert fetched <= 12e6


@pytest.mark.parametrize(
    ("requirement", "member", "sm", "cuda", "most"),
    [
        ("xformers==0.0.35", "xformers/_C.so", ("7.5", "8.0", "9.0a"), ("12",), 4),
        (
            "bitsandbytes==0.50.2",
            "bitsandbytes/libbitsandbytes_cuda132.so",
            ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0"),
            ("13",),
            56,
        ),
        ("tensorflow==2.21.0", "tensorflow/python/platform/build_info.py", ("6.0", "7.0", "8.0", "8.9"), (), 4.5),
    ],
)
def test_the_gpus_of_other_wheels(
    reader: WheelReader, requirement: str, member: str, sm: tuple[str, ...], cuda: tuple[str, ...], most: float
) -> None:
    says, fetched = asked(reader, requirement, "code", "3.12")
    assert says.code is not None and says.code.complete
    assert [(one.sm, tuple(one.cuda)) for one in says.code.libraries if one.member == member] == [(sm, cuda)]
    assert fetched <= most * 1e6


@pytest.mark.parametrize(("version", "has"), [("81.0.0", True), ("82.0.0", False)])
def test_the_setuptools_that_dropped_pkg_resources(version: str, has: bool) -> None:
    from envspec.binaries.wheel import open_wheel
    from envspec.net.remote_file import open_remote

    file = found(f"setuptools=={version}", "3.11")
    fetcher = Fetcher(credentials={}, env=dict(os.environ))
    with open_remote(fetcher, file.url, 1 << 24) as remote, open_wheel(remote) as wheel:
        assert any(wheel.find(r"pkg_resources/__init__\.py")) is has
