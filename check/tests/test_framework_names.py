"""Which frameworks a lock has, and the GPUs that the driver gives."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from envspec_check.cuda_driver import Driver, driver_gpus
from envspec_check.lock import FRAMEWORKS, frameworks


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["torch", "numpy"], ["torch"]),
        (["jax", "jaxlib", "jax-cuda13-plugin"], ["jax"]),
        (["tensorflow-cpu", "keras"], ["tensorflow"]),
        (["onnxruntime-gpu"], ["onnxruntime"]),
        (["cupy-cuda13x"], ["cupy"]),
        (["cudf-cu12", "libcudf-cu12"], ["rapids"]),
        (["jax", "torch"], ["torch", "jax"]),
        (["jaxtyping", "torchmetrics", "tensorflow-datasets", "onnx", "cupyx", "torch-tb-profiler"], []),
    ],
)
def test_the_frameworks_of_a_lock(names: list[str], found: list[str]) -> None:
    assert list(frameworks({"pip": [{"name": name, "version": "1.0"} for name in names]})) == found


def test_those_that_conda_brings_have_their_names_there() -> None:
    lock = {"conda": [{"name": "pytorch", "version": "2.7", "provides": ["torch"]}, {"name": "cudf", "version": "25"}]}
    assert frameworks(lock) == {"torch": "2.7", "rapids": "25"}
    assert next(iter(FRAMEWORKS)) == "torch"


class StandInLibrary:
    """libcuda with two GPUs, of which 30 of 80 GiB are free. `calls` are its functions, in order."""

    def __init__(self, broken: str = "") -> None:
        self.calls: list[str] = []
        self.broken = broken

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> int:
            self.calls.append(name)
            if name == "cuDeviceGetCount":
                given[0]._obj.value = 2
            elif name == "cuDeviceGet":
                given[0]._obj.value = 10 + given[1]
            elif name == "cuDeviceGetName":
                given[0].value = b"NVIDIA H100 %d" % given[2]
            elif name == "cuDeviceTotalMem_v2":
                given[0]._obj.value = 80 << 30
            elif name == "cuDeviceGetAttribute":
                given[0]._obj.value = {75: 9, 76: 0}[given[1]]
            elif name == "cuMemGetInfo_v2":
                given[0]._obj.value, given[1]._obj.value = 30 << 30, 80 << 30
            return 100 if name == self.broken else 0

        return call


def test_the_driver_says_which_gpus_there_are() -> None:
    assert Driver(StandInLibrary()).gpus() == [
        {"name": f"NVIDIA H100 {at}", "capability": "9.0", "memory_bytes": 80 << 30} for at in (10, 11)
    ]


def test_the_driver_says_how_much_memory_is_free_and_keeps_no_context() -> None:
    library = StandInLibrary()
    assert Driver(library).memory() == (30 << 30, 80 << 30)
    assert library.calls[-1] == "cuDevicePrimaryCtxRelease_v2"


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetCount", "cuDeviceGetName"])
def test_a_driver_that_gives_an_error_has_no_gpus(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: StandInLibrary(function))
    assert driver_gpus() == []
