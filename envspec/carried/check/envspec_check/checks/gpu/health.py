"""device.health and figures.health: what NVML says of the memory, the clocks and the bus of each GPU, before the other
checks and under load after them."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional

from envspec_check.interface import Context, Outcome, Skip, check, failed, passed, skipped
from envspec_check.machine import Nvml, nvml, pci_address

Health = Dict[str, Optional[int]]
"""By name; None where the card, its driver or a MIG instance can't tell."""

SLOWED = {0x08: "by its hardware", 0x20: "by its heat", 0x40: "by its heat, in hardware", 0x80: "by its power supply"}
"""The reasons that aren't a setting, an idle GPU or the power that it is sold with: nvmlClocksThrottleReason*."""

ASKED = {
    "ecc_uncorrected": ("nvmlDeviceGetTotalEccErrors", 1, 0),  # uncorrected, since the driver was loaded
    "slowed": ("nvmlDeviceGetCurrentClocksThrottleReasons",),
    "pcie_width": ("nvmlDeviceGetCurrPcieLinkWidth",),
    "pcie_width_max": ("nvmlDeviceGetMaxPcieLinkWidth",),
    "pcie_generation": ("nvmlDeviceGetCurrPcieLinkGeneration",),
    "pcie_generation_max": ("nvmlDeviceGetMaxPcieLinkGeneration",),
}


def health_of(library: Nvml, device: Any) -> Health:
    found: Health = {name: library.number(function, device, *given) for name, (function, *given) in ASKED.items()}
    rows = library.remapped_rows(device)
    return {**found, "rows_pending": rows and rows[2], "rows_failed": rows and rows[3]}


def wrong_memory(found: List[Health]) -> List[str]:
    """What of the GPUs' memory can't be trusted."""
    told = []
    for index, one in enumerate(found):
        if one.get("ecc_uncorrected"):
            told.append("GPU %d had %d errors of memory that ECC didn't mend" % (index, one["ecc_uncorrected"]))
        if one.get("rows_failed"):
            told.append("GPU %d couldn't replace a bad row of its memory" % index)
        elif one.get("rows_pending"):
            told.append("GPU %d replaces a bad row of its memory at its next reset" % index)
    return told


def slowed_down(found: List[Health]) -> List[str]:
    """What makes the GPUs slower than they are."""
    told = []
    for index, one in enumerate(found):
        told += [f"GPU {index} is slowed down {why}" for bit, why in SLOWED.items() if (one.get("slowed") or 0) & bit]
        for what, words in (("width", "has %d lanes of %d"), ("generation", "is of generation %d and could be of %d")):
            own, most = one.get("pcie_" + what), one.get("pcie_%s_max" % what)
            if own and most and own < most:
                told.append("GPU %d's PCIe link " % index + words % (own, most))
    return told


def looked_at(ctx: Context, work: Callable[[], None] = lambda: None) -> List[Health]:
    """The health of each GPU that torch sees, while this work runs. Raises Skip without NVML."""
    library = nvml()
    if not library:
        raise Skip("NVML can't be used here: the driver's libnvidia-ml.so.1 isn't there, or doesn't start")
    devices = [library.device_at(pci_address(ctx.torch, index)) for index in range(ctx.gpus)]
    work()
    return [health_of(library, one) if one else {} for one in devices]


def judged(found: List[Health], slow: List[str]) -> Outcome:
    details = {"gpus": found}
    if not any(found):
        return skipped("NVML knows none of these GPUs by its address", details=details)
    wrong = wrong_memory(found)
    if wrong:
        remedy = "have the GPU reset or replaced: nvidia-smi -q -d ECC,ROW_REMAPPER says more"
        return failed("; ".join(wrong), remedy, details=details)
    return passed(details=details, slow=slow)


@check("device.health", needs="gpu")
def device_health(ctx: Context) -> Outcome:
    """No GPU's memory has errors."""
    return judged(looked_at(ctx), [])


@check("figures.health", needs="gpu")
def figures_health(ctx: Context) -> Outcome:
    """Neither has it after the other checks, and under load no GPU is slowed down."""
    torch = ctx.torch
    ones = [torch.randn(2048, 2048, device="cuda:%d" % index).half() for index in range(ctx.gpus)]
    end = time.perf_counter() + (0.5 if ctx.quick else 2.0)

    def work() -> None:
        while time.perf_counter() < end:
            for one in ones:
                torch.cuda.synchronize(one.device)
                for _ in range(64):  # which runs on while NVML is asked
                    torch.mm(one, one)

    found = looked_at(ctx, work)
    return judged(found, slowed_down(found))
