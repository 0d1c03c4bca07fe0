"""device.health and figures.health: what NVML says of each GPU's memory, before the other checks and after them, and of
its clocks and its bus under load."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List

from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.machine import pci_address
from envspec_check.nvml import nvml

SLOWED = {0x08: "by its hardware", 0x20: "by its heat", 0x40: "by its heat, in hardware", 0x80: "by its power supply"}
"""The reasons that aren't a setting, an idle GPU or the power that it is sold with: nvmlClocksThrottleReason*."""

ASKED = {
    "ecc_uncorrected": ("TotalEccErrors", 1, 0),  # uncorrected, since the driver was loaded
    "slowed": ("CurrentClocksThrottleReasons",),
    "lanes": ("CurrPcieLinkWidth",),
    "lanes_max": ("MaxPcieLinkWidth",),
}

Health = Dict[str, Any]
"""By name; None where the card, its driver or a MIG instance can't tell. Empty: NVML doesn't know the GPU."""


def wrong_memory(index: int, health: Health) -> List[str]:
    """List the faults of a GPU's memory."""
    _, _, pending, failing = health.get("rows") or (0, 0, 0, 0)
    faults = {
        "had %s errors of memory that ECC didn't mend" % health.get("ecc_uncorrected"): health.get("ecc_uncorrected"),
        "couldn't replace a bad row of its memory": failing,
        "replaces a bad row of its memory at its next reset": pending,
    }
    return ["GPU %d %s" % (index, words) for words, wrong in faults.items() if wrong]


def slowed_down(index: int, health: Health) -> List[str]:
    """List the causes that slow a GPU down."""
    causes = ["is slowed down " + why for bit, why in SLOWED.items() if (health.get("slowed") or 0) & bit]
    lanes, most = health.get("lanes"), health.get("lanes_max")
    causes += ["has %d lanes of PCIe and could have %d" % (lanes, most)] if lanes and most and lanes < most else []
    return ["GPU %d %s" % (index, words) for words in causes]


def judge(ctx: Context, work: Callable[[], None] = lambda: None, loaded: bool = False) -> Outcome:
    """The health of each GPU that torch sees, while this work runs."""
    library, gpus = nvml(), []
    if not library:
        raise Skip("NVML can't be used here: the driver's libnvidia-ml.so.1 isn't there, or doesn't start")
    devices = [library.device_at(pci_address(ctx.torch, index)) for index in range(ctx.gpus)]
    work()
    for device in devices:
        numbers = {name: library.number("nvmlDeviceGet" + what, device, *more) for name, (what, *more) in ASKED.items()}
        gpus.append({**numbers, "rows": library.remapped_rows(device)} if device else {})
    details = {"gpus": gpus}
    if not any(gpus):
        raise Skip("NVML knows none of these GPUs by its address", details=details)
    wrong = [words for at, health in enumerate(gpus) for words in wrong_memory(at, health)]
    if wrong:
        remedy = "have the GPU reset or replaced: nvidia-smi -q -d ECC,ROW_REMAPPER says more"
        return failed("; ".join(wrong), remedy, details=details)
    slow = [words for at, health in enumerate(gpus) for words in slowed_down(at, health)] if loaded else []
    return passed(details=details, slow=slow)


@check("device.health", needs="gpu")
def device_health(ctx: Context) -> Outcome:
    """No GPU's memory has errors."""
    return judge(ctx)


@check("figures.health", needs="gpu")
def figures_health(ctx: Context) -> Outcome:
    """Neither has it after the other checks, and under load no GPU is slowed down."""
    matrices = [ctx.torch.randn(2048, 2048, device="cuda:%d" % index).half() for index in range(ctx.gpus)]
    end = time.perf_counter() + (0.5 if ctx.quick else 2.0)

    def work() -> None:
        while time.perf_counter() < end:
            for matrix in matrices:
                ctx.torch.cuda.synchronize(matrix.device)
                for _ in range(64):  # which runs on while NVML is asked
                    ctx.torch.mm(matrix, matrix)

    return judge(ctx, work, loaded=True)
