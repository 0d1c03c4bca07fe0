"""Frameworks that leave GPUs out in silence, by stand-ins for them: the check of their devices says so."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import envspec_check.checks  # noqa: F401
import pytest
from envspec_check.checks.frameworks import jax as jax_checks
from envspec_check.interface import CHECKS, Context, Skip

LOCK = {"targets": {"t": {"cuda": "13.0", "architectures": ["sm_90"]}}}
CONTEXT = Context(
    {"target": "t", "lock": LOCK},
    "cuda",
    "basic",
    5,
    True,
    0,
    60.0,
    Path(__file__).with_name("missing"),
    "check",
    gpus=2,
)


def jax_with(*devices: tuple[str, str]) -> Any:
    """A JAX whose devices have these platforms and capabilities; what it computes lies on the first."""
    made = [
        SimpleNamespace(platform=platform, device_kind=platform, compute_capability=capability)
        for platform, capability in devices
    ]

    class Sum(int):
        def devices(self) -> list[Any]:
            return made[:1]

    numbers = SimpleNamespace(arange=lambda count: SimpleNamespace(sum=lambda: Sum(count * (count - 1) // 2)))
    return SimpleNamespace(devices=lambda: made, default_backend=lambda: devices[0][0], numpy=numbers)


@pytest.mark.parametrize(
    ("devices", "variable", "reason"),
    [
        ([("gpu", "9.0"), ("gpu", "9.0")], None, None),
        ([("cpu", "")], None, "JAX computes on cpu, and 2 GPUs are there"),
        ([("cpu", "")], "cpu", "JAX computes on cpu, and 2 GPUs are there (JAX_PLATFORMS=cpu)"),
        ([("gpu", "9.0")], None, "JAX sees 1 GPUs of 2"),
        ([("gpu", "8.0"), ("gpu", "9.0")], None, "JAX's GPUs are of 8.0, 9.0: the target is for 9.0"),
    ],
)
def test_a_jax_that_leaves_gpus_out(
    devices: list[tuple[str, str]], variable: str | None, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jax", jax_with(*devices))
    monkeypatch.setattr(jax_checks, "plugins", lambda: {"xla_cuda13": "jax-cuda13-pjrt 0.11.2"})
    monkeypatch.setenv("JAX_PLATFORMS", variable or "")
    outcome = CHECKS["jax.devices"].run(CONTEXT)
    assert (outcome.status, outcome.reason) == ("fail" if reason else "pass", reason)


def test_a_jax_without_a_plugin_has_no_gpus_to_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_checks, "plugins", dict)
    with pytest.raises(Skip, match="no CUDA plugin"):
        CHECKS["jax.devices"].run(CONTEXT)
    assert not jax_checks.on_gpu(CONTEXT)


@pytest.mark.parametrize(
    ("count", "capability", "reason"),
    [
        (0, (9, 0), "tensorflow sees 0 GPUs of 2: it computes on the CPU"),
        (1, (9, 0), "tensorflow sees 1 GPUs of 2"),
        (2, (8, 6), "tensorflow's GPUs are of 8.6: the target is for 9.0"),
    ],
)
def test_a_tensorflow_that_leaves_gpus_out(
    count: int, capability: tuple[int, int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"device_name": "NVIDIA H100", "compute_capability": capability}
    experimental = SimpleNamespace(get_device_details=lambda device: about)
    config = SimpleNamespace(list_physical_devices=lambda kind: ["GPU"] * count, experimental=experimental)
    built = SimpleNamespace(get_build_info=lambda: {"is_cuda_build": True})
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config, sysconfig=built))
    outcome = CHECKS["tensorflow.devices"].run(CONTEXT)
    assert (outcome.status, outcome.reason) == ("fail", reason)


@pytest.mark.parametrize(
    ("count", "version", "capability", "reason"),
    [
        (2, 13000, "90", None),
        (1, 13000, "90", "CuPy sees 1 GPUs of 2"),
        (2, 12080, "90", "CuPy is built for CUDA 12, the target for 13"),
        (2, 13000, "80", "CuPy's GPUs are of 80, 80: the target is for 90"),
    ],
)
def test_a_cupy_of_another_cuda_or_gpu(
    count: int, version: int, capability: str, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = SimpleNamespace(
        getDeviceCount=lambda: count, runtimeGetVersion=lambda: version, driverGetVersion=lambda: 13000
    )
    cuda = SimpleNamespace(runtime=runtime, Device=lambda at: SimpleNamespace(compute_capability=capability))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, __version__="14.2.0"))
    monkeypatch.setenv("CUPY_CACHE_DIR", "")
    outcome = CHECKS["cupy.devices"].run(CONTEXT)
    assert (outcome.status, outcome.reason) == ("fail" if reason else "pass", reason)
