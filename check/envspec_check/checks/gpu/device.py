"""device: the driver, the GPUs and their memory."""

from __future__ import annotations

import os
from typing import Mapping

from envspec_check.capability import capability_of, covers
from envspec_check.interface import MIB, Context, Fault, Outcome, Skip, check, failed, passed, some
from envspec_check.lock import numbers
from envspec_check.machine import NO_GPU, NO_GPU_REMEDY
from envspec_check.nvml import driver_version, nvml

DISPLAY = 4096 * MIB


@check("device.driver", needs="driver", torch=False)
def device_driver(ctx: Context) -> Outcome:
    """The driver isn't older than the target's CUDA needs."""
    version, lower_bound = driver_version(), ctx.target.get("driver-floor")
    details = {"driver": version, "floor": lower_bound}
    if not version:
        raise Skip("the driver doesn't report its version", details=details)
    if lower_bound and numbers(version) < numbers(lower_bound):
        reason = "the driver is {} and CUDA {} needs {} or newer".format(version, ctx.target.get("cuda"), lower_bound)
        return failed(reason, "update the driver, or use a target with an older CUDA", details=details)
    return passed(details=details)


def expected_gpus(environ: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the number of GPUs given to this process, and the giver; None without one. CUDA_VISIBLE_DEVICES comes
    first: Slurm binds one of a node's GPUs to each task by it."""
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed:
        names = [name.strip() for name in listed.split(",")]
        # CUDA enumerates one MIG instance only, however many are listed, and stops at what it doesn't know.
        count = 1 if names[0].startswith("MIG-") else len(names)
        return count, f"CUDA_VISIBLE_DEVICES={listed}"
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if environ.get(name):
            return len(environ[name].split(",")), f"{name}={environ[name]}"
    on_node = environ.get("SLURM_GPUS_ON_NODE", "")
    return (int(on_node), f"SLURM_GPUS_ON_NODE={on_node}") if on_node.isdigit() and int(on_node) else None


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


@check("device.count", needs="gpu")
def device_count(ctx: Context) -> Outcome:
    """torch sees as many GPUs as the job was given."""
    expected = expected_gpus(os.environ)
    details = {"torch": ctx.gpus, "expected": expected and expected[0]}
    if expected is None or ctx.gpus >= expected[0]:
        return passed(details=details)
    reason = "torch sees %d GPUs of the %d that it was given (%s)" % (ctx.gpus, expected[0], expected[1])
    return failed(reason, "compare with nvidia-smi -L; a GPU that fell off the bus is told by dmesg", details=details)


@check("device.capability", needs="gpu")
def device_capability(ctx: Context) -> Outcome:
    """The GPUs are those of the target, or run code for those: such a run proves nothing of the target's own."""
    torch, expected = ctx.torch, ctx.target.get("architectures", [])
    own = [tuple(torch.cuda.get_device_capability(index)) for index in range(torch.cuda.device_count())]
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    details = {"gpus": names, "capabilities": ["%d.%d" % capability for capability in own], "target": expected}
    near = [capability for capability in own if expected and capability not in map(capability_of, expected)]
    cuda = ctx.target.get("cuda")
    other = [
        name
        for name, capability in zip(names, own)
        if capability in near and not covers(expected, "sm_%d%d" % capability, cuda)
    ]
    if not other:
        reason = "code for %s runs on %s" % (
            ", ".join(expected),
            some(sorted({"%d.%d" % capability for capability in near})),
        )
        return passed(reason=reason if near else None, details={**details, "near": bool(near)})
    reason = "{}: the target is for {}".format(some(sorted(set(other))), ", ".join(expected))
    return failed(reason, "use the target for this GPU, or lock one", details=details)


def is_taken(free_bytes: int, total_bytes: int, shared: bool) -> bool:
    """Return whether other programs hold most of a GPU's memory. A display takes up to DISPLAY of it; memory that is
    shared with the CPU is the machine's, whose files lie in it too."""
    return not shared and free_bytes < total_bytes // 2 and total_bytes - free_bytes > DISPLAY


@check("device.memory", needs="gpu")
def device_memory(ctx: Context) -> Outcome:
    """GPU memory can be taken, written and read back, and nearly all of it is free."""
    torch, counts = ctx.torch, []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        shared = bool(getattr(torch.cuda.get_device_properties(index), "is_integrated", False))
        counts.append({"free_bytes": free, "total_bytes": total, "shared": shared})
        size = min(free // 4, (64 if ctx.quick else 1024) * MIB) // 8
        written = torch.arange(size, device="cuda:%d" % index)
        if int(written.sum()) != size * (size - 1) // 2 or not torch.equal(written.cpu(), torch.arange(size)):
            return failed(
                "GPU %d doesn't give back what was written to it" % index, "look at nvidia-smi -q for ECC errors"
            )
        del written
    taken = [index for index, memory in enumerate(counts) if is_taken(**memory)]
    if taken:
        amounts = ", ".join(
            "GPU %d has %.1f of %.1f GiB" % (i, counts[i]["free_bytes"] / 2**30, counts[i]["total_bytes"] / 2**30)
            for i in taken
        )
        remedy = "nvidia-smi shows which processes use it; ask the scheduler for a GPU of your own"
        return failed(f"less than half of the memory is free: {amounts}", remedy, details={"gpus": counts})
    return passed(details={"gpus": counts})
