"""The checks of GPUs alone, on pretended ones: NVML, its devices and torch's are stand-ins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from envspec_check.checks.gpu import health, versions
from envspec_check.checks.gpu.float8 import operators_fp8
from envspec_check.interface import Context, Skip
from envspec_check.nvml import Nvml

WELL = {
    "nvmlDeviceGetTotalEccErrors": 0,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,  # the power that it is sold with
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
}


class PretendedNvml(Nvml):
    """A library that answers as the driver of one GPU would."""

    def __init__(self, answers: dict[str, int], rows: tuple[int, int, int, int] | None) -> None:
        def answer(name: str) -> Any:
            def ask(device: object, *given: Any) -> int:
                given[-1]._obj.value = answers[name]
                return 0

            return ask

        def remapped(device: object, *given: Any) -> int:
            for place, value in zip(given, rows or (0, 0, 0, 0), strict=True):
                place._obj.value = value
            return 0 if rows else 3  # not supported

        self.library: Any = SimpleNamespace(
            **{name: answer(name) for name in answers}, nvmlDeviceGetRemappedRows=remapped
        )

    def device_at(self, pci: str) -> Any:
        return pci if pci == "00000000:3b:00.0" else None


def context(**cuda: Any) -> Context:
    facts = SimpleNamespace(pci_domain_id=0, pci_bus_id=cuda.pop("bus", 0x3B), pci_device_id=0)
    own = {name: cuda.pop(name) for name in ("float8_e4m3fn", "_scaled_mm") if name in cuda}
    torch = SimpleNamespace(cuda=SimpleNamespace(get_device_properties=lambda index: facts, **cuda), **own)
    made = Context({"target": "t", "lock": {}}, "cuda", "llm", 5, True, 0, 60.0, Path(), "check", gpus=1)

    class WithTorch(Context):
        torch = property(lambda self: torch)

    return WithTorch(**made.__dict__)


def pretend(monkeypatch: pytest.MonkeyPatch, rows: Any = (0, 0, 0, 0), **other: int) -> None:
    answers = {**WELL, **{f"nvmlDeviceGet{name}": value for name, value in other.items()}}
    monkeypatch.setattr(health, "nvml", lambda: PretendedNvml(answers, rows))


def test_a_pretended_gpu_in_good_health(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    outcome = health.device_health(context())
    assert (outcome.status, outcome.slow) == ("pass", [])
    (gpu,) = outcome.details["gpus"]
    assert (gpu["lanes"], gpu["ecc_uncorrected"], gpu["rows"]) == (16, 0, [0, 0, 0, 0])
    assert health.judge(context(), loaded=True).slow == []


@pytest.mark.parametrize(
    ("rows", "errors", "reason"),
    [
        ((0, 0, 0, 0), 3, "GPU 0 had 3 errors of memory that ECC didn't mend"),
        ((0, 2, 0, 1), 0, "GPU 0 couldn't replace a bad row of its memory"),
        ((0, 2, 1, 0), 0, "GPU 0 replaces a bad row of its memory at its next reset"),
    ],
)
def test_a_pretended_gpu_with_bad_memory_fails(
    monkeypatch: pytest.MonkeyPatch, rows: Any, errors: int, reason: str
) -> None:
    pretend(monkeypatch, rows, TotalEccErrors=errors)
    outcome = health.device_health(context())
    assert (outcome.status, outcome.reason) == ("fail", reason)


@pytest.mark.parametrize(
    ("answers", "slow"),
    [
        ({"CurrentClocksThrottleReasons": 0x44}, ["GPU 0 is slowed down by its heat, in hardware"]),
        ({"CurrentClocksThrottleReasons": 0x80}, ["GPU 0 is slowed down by its power supply"]),
        ({"CurrentClocksThrottleReasons": 0x1}, []),
        ({"CurrPcieLinkWidth": 8}, ["GPU 0 has 8 lanes of PCIe and could have 16"]),
    ],
)
def test_a_pretended_gpu_that_is_slowed_down(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, int], slow: list[str]
) -> None:
    pretend(monkeypatch, **answers)
    outcome = health.judge(context(), loaded=True)
    assert (outcome.status, outcome.slow) == ("pass", slow)
    assert health.device_health(context()).slow == []  # an idle GPU's clocks and lanes say nothing


def test_a_pretended_card_of_a_desk_tells_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ECC, and before Ampere: what it can't tell isn't judged."""
    library = PretendedNvml({name: value for name, value in WELL.items() if "Ecc" not in name}, None)
    monkeypatch.setattr(health, "nvml", lambda: library)
    (gpu,) = health.device_health(context()).details["gpus"]
    assert (gpu["ecc_uncorrected"], gpu["rows"]) == (None, None)


def test_without_nvml_or_with_an_address_that_it_doesnt_know_it_is_skipped_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "nvml", lambda: None)
    with pytest.raises(Skip, match=r"libnvidia-ml\.so\.1 isn't there"):
        health.device_health(context())
    pretend(monkeypatch)
    with pytest.raises(Skip, match="NVML knows none of these GPUs by its address"):
        health.device_health(context(bus=0x5E))


def test_a_pretended_ampere_has_no_fp8() -> None:
    with pytest.raises(Skip, match=r"its compute capability is 8\.6, and 8\.9 is the first"):
        operators_fp8(context(get_device_capability=lambda: (8, 6), float8_e4m3fn=1, _scaled_mm=1))


@pytest.mark.parametrize(
    ("pins", "loaded", "wrong"),
    [
        ([("nvidia-cudnn-cu12", "9.10.2.21")], {"cuDNN": "9.10.2"}, []),
        (
            [("nvidia-cudnn-cu12", "9.10.2.21")],
            {"cuDNN": "8.9.7"},
            ["cuDNN 8.9.7 is loaded, locked is nvidia-cudnn-cu12 9.10.2.21"],
        ),
        (
            [("nvidia-nccl-cu12", "2.27.5")],
            {"NCCL": "2.18.1"},
            ["NCCL 2.18.1 is loaded, locked is nvidia-nccl-cu12 2.27.5"],
        ),
        ([("nccl", "2.27.5.1")], {"NCCL": "2.27.5"}, []),
        ([("nvidia-nccl-cu12", "2.27.5")], {"NCCL": None}, []),
    ],
)
def test_the_libraries_that_a_pretended_torch_loaded(
    pins: list[tuple[str, str]], loaded: dict[str, str | None], wrong: list[str]
) -> None:
    lock = {"pip": [{"name": name, "version": version} for name, version in pins]}
    numbers = [int(part) for part in (loaded.get("cuDNN") or "0.0.0").split(".")]
    nccl = tuple(map(int, (loaded.get("NCCL") or "").split("."))) if loaded.get("NCCL") else ()
    spelled = numbers[0] * (10000 if numbers[0] > 8 else 1000) + numbers[1] * 100 + numbers[2]
    made = context(nccl=SimpleNamespace(version=lambda: nccl))
    made.torch.version = SimpleNamespace(cuda="12.8")
    made.torch._C = SimpleNamespace(**({"_nccl_version": 1} if nccl else {}))
    made.torch.backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: spelled or None))
    made.config["lock"] = lock
    outcome = versions.static_cuda_versions(made)
    assert (outcome.status, outcome.reason) == (("fail", "; ".join(wrong)) if wrong else ("pass", None))
