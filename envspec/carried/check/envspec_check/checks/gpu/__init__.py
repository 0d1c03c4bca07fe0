"""What is asked of GPUs alone. An export without a target for CUDA carries no module of it; the names are in the table
too, so that a report always has the same lines."""

from __future__ import annotations

from envspec_check.interface import Context, Outcome, check, failed, skipped
from envspec_check.left_out import AGAIN, is_here

MODULES = {
    "libraries": ("static.libraries", "static.architectures"),
    "versions": ("static.cuda_versions",),
    "device": ("device.driver", "device.visible", "device.count", "device.capability", "device.memory"),
    "fabric": ("collectives.fabric",),
    "float8": ("operators.fp8", "figures.fp8"),
    "health": ("device.health", "figures.health"),
}
"""The modules, and the checks of each as the table has them."""

NEEDS = {
    "device.driver": "driver",
    "device.visible": "driver",
    **dict.fromkeys((*MODULES["libraries"], *MODULES["versions"])),
}
"""What those need that can do without a GPU."""


def left_out(ctx: Context) -> Outcome:
    if not ctx.target.get("cuda") and ctx.device != "cuda":
        return skipped("the target is for CPUs")
    return failed("the checks of GPUs aren't here: this copy was exported for targets without CUDA", AGAIN)


for _module, _names in MODULES.items():
    if not is_here(__name__, _module):
        for _name in _names:
            check(_name, needs=NEEDS.get(_name, "gpu"))(left_out)
