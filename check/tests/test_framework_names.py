"""A lock's frameworks, the driver's GPUs, and the frameworks' shares of them."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest
from envspec_check.checks.frameworks import together
from envspec_check.checks.frameworks.kit import judge
from envspec_check.cuda_driver import Driver, driver_gpus
from envspec_check.interface import CHECKS, Context, Fault
from envspec_check.lock import FRAMEWORKS, frameworks


@pytest.mark.parametrize(
    ("names", "expected"),
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
def test_the_frameworks_of_a_lock(names: list[str], expected: list[str]) -> None:
    assert list(frameworks({"pip": [{"name": name, "version": "1.0"} for name in names]})) == expected


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


GIB = 1 << 30
LOCK = {"pip": [{"name": name, "version": "1"} for name in ("torch", "jax", "tensorflow")]}
CONTEXT = Context({"target": "t", "lock": LOCK}, "cuda", "basic", 5, True, 0, 60.0, Path(), "check", gpus=1)


def take(monkeypatch: pytest.MonkeyPatch, **left: float) -> None:
    """Let frameworks take turns that leave so many of 80 GiB, and 79 where a variable tells them to."""

    def turns(ctx: Context, names: list[str], **env: str) -> list[dict[str, Any]]:
        gib = {name: left["bounded"] if env else left[name] for name in names}
        return [
            {"framework": name, "gpus": 1, "error": 0.0, "free_bytes": 80 * GIB, "left_bytes": int(gib[name] * GIB)}
            for name in names
        ]

    monkeypatch.setattr(together, "take_turns", turns)
    monkeypatch.setattr(together, "Driver", lambda: Driver(StandInLibrary()))


def test_a_framework_that_takes_what_it_needs_says_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, jax=20.0, bounded=79.0)
    details, figures = together.compare_footprints(CONTEXT, "jax")
    assert details["taken_bytes"] == 60 * GIB and details["total_bytes"] == 80 * GIB
    assert figures[1] == ("jax.memory.least", float(GIB), "B")


def test_a_framework_that_heeds_no_bound_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    take(monkeypatch, tensorflow=1.0, bounded=1.0)
    with pytest.raises(Fault, match=r"with TF_FORCE_GPU_ALLOW_GROWTH=true tensorflow takes 79.0 GiB for little work"):
        together.compare_footprints(CONTEXT, "tensorflow")


@pytest.mark.parametrize(
    ("left", "status", "reason"),
    [
        ({"torch": 10.0, "jax": 20.0, "tensorflow": 19.0}, "pass", None),
        ({"torch": 10.0, "jax": 20.0, "tensorflow": 0.5}, "fail", "tensorflow takes all but 0.5 of 80.0 GiB"),
    ],
)
def test_none_takes_all_memory(
    left: dict[str, float], status: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(monkeypatch, **left)
    outcome = together.together_memory(CONTEXT)
    assert (outcome.status, outcome.reason) == (status, reason)
    assert outcome.remedy is None or outcome.remedy.startswith('env = { TF_FORCE_GPU_ALLOW_GROWTH = "true" }')


def test_a_number_that_is_none_is_the_worst() -> None:
    outcome = judge({"a": 1e-9, "b": float("nan"), "c": 1e-3}, 1e-6, "in fp32", errors="all")
    assert outcome.status == "fail" and outcome.details["errors"] == "all"
    assert "b in fp32" in (outcome.reason or "")


def test_each_framework_of_the_table_has_checks() -> None:
    groups = {check.group for check in CHECKS.values()}
    assert set(FRAMEWORKS) - groups == {"torch"}
    assert {name for name in groups & set(FRAMEWORKS) if f"{name}.build" not in CHECKS} == {"cupy", "rapids"}
