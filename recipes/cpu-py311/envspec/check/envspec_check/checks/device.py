"""device: the driver, the GPUs and their memory."""

from __future__ import annotations

import os

from envspec_check.capability import capability_of
from envspec_check.interface import MIB, Context, Fault, Outcome, Skip, check, failed, passed, some
from envspec_check.lock import numbers
from envspec_check.machine import driver_version, nvml

NO_GPU = "cuda was asked for and torch sees no GPU"

NO_GPU_REMEDY = "pass the GPUs in (--gpus all, --nv, the scheduler's), or check the CPU alone: --device cpu"


@check("device.driver", needs="driver", torch=False)
def device_driver(ctx: Context) -> Outcome:
    """The driver isn't older than the target's CUDA needs."""
    version, floor = driver_version(), ctx.target.get("driver-floor")
    details = {"driver": version, "floor": floor}
    if not version:
        raise Skip("the driver doesn't report its version", details=details)
    if floor and numbers(version) < numbers(floor):
        reason = "the driver is {} and CUDA {} needs {} or newer".format(version, ctx.target.get("cuda"), floor)
        return failed(reason, "update the driver, or use a target with an older CUDA", details=details)
    return passed(details=details)


@check("device.visible", needs="driver")
def device_visible(ctx: Context) -> Outcome:
    """torch can use the GPUs that the driver shows."""
    library, torch = nvml(), ctx.torch
    shown = len(library.devices()) if library else 0
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    details = {"shown": shown, "torch": ctx.gpus, "CUDA_VISIBLE_DEVICES": hidden}
    if ctx.gpus:
        return passed(details=details)
    if hidden in ("", "-1") or not shown:
        if ctx.device == "cuda":
            raise Fault(NO_GPU, NO_GPU_REMEDY, details=details)
        raise Skip("this process has no GPU", details=details)
    try:
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        why = str(error).strip().partition("\n")[0]
    else:
        why = "no reason is given"
    remedy = "compare the driver with the target's floor; pass the GPUs to a container (--gpus all, --nv)"
    return failed("the driver shows %d GPUs and torch can use none: %s" % (shown, why), remedy, details=details)


@check("device.capability", needs="gpu")
def device_capability(ctx: Context) -> Outcome:
    """The GPUs are those of the target."""
    torch, wanted = ctx.torch, ctx.target.get("architectures", [])
    own = [tuple(torch.cuda.get_device_capability(index)) for index in range(torch.cuda.device_count())]
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    details = {"gpus": names, "capabilities": ["%d.%d" % one for one in own], "target": wanted}
    other = [name for name, one in zip(names, own) if wanted and one not in map(capability_of, wanted)]
    if not other:
        return passed(details=details)
    reason = "{}: the target is for {}".format(some(sorted(set(other))), ", ".join(wanted))
    return failed(reason, "use the target for this GPU, or lock one", details=details)


@check("device.memory", needs="gpu")
def device_memory(ctx: Context) -> Outcome:
    """GPU memory can be taken, written and read back, and nearly all of it is free."""
    torch, counts = ctx.torch, []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        counts.append({"free_bytes": free, "total_bytes": total})
        size = min(free // 4, (64 if ctx.quick else 1024) * MIB) // 8
        written = torch.arange(size, device="cuda:%d" % index)
        if int(written.sum()) != size * (size - 1) // 2 or not torch.equal(written.cpu(), torch.arange(size)):
            return failed(
                "GPU %d doesn't give back what was written to it" % index, "look at nvidia-smi -q for ECC errors"
            )
        del written
    taken = [index for index, one in enumerate(counts) if one["free_bytes"] < one["total_bytes"] // 2]
    if taken:
        told = ", ".join(
            "GPU %d has %.1f of %.1f GiB" % (i, counts[i]["free_bytes"] / 2**30, counts[i]["total_bytes"] / 2**30)
            for i in taken
        )
        remedy = "nvidia-smi shows which processes use it; ask the scheduler for a GPU of your own"
        return failed(f"less than half of the memory is free: {told}", remedy, details={"gpus": counts})
    return passed(details={"gpus": counts})
