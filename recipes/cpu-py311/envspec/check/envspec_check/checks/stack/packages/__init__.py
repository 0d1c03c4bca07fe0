"""stack.NAME: whether a package does what it is installed for. An export carries the modules of the packages that a
target of its spec locks; the checks of the others are in the table too, so that a report always has the same lines."""

from __future__ import annotations

from typing import Any

from envspec_check.checks.stack.locked import stack_check
from envspec_check.interface import Context, Outcome, failed
from envspec_check.left_out import AGAIN, is_here

ORDER = ("numpy", "torchvision", "torchaudio", "transformers", "timm", "diffusers", "peft", "accelerate", "deepspeed")
"""The packages, as the table has them. The module of each has its name."""


def left_out(ctx: Context, package: Any) -> Outcome:
    reason = f"the check of {package.__name__} isn't here: this copy was exported for targets without that package"
    return failed(reason, AGAIN)


for _name in ORDER:
    if not is_here(__name__, _name):
        stack_check(_name)(left_out)
