"""The rule that a training holds no more memory from step to step."""

from __future__ import annotations

import gc
import os
from typing import Any, Dict, NamedTuple

from envspec_check.interface import MIB
from envspec_check.machine import read_text

LEAST_STEPS = 8
"""Steps between two looks, so that caches and allocators which fill once don't count."""

TENSOR_BYTES, PROCESS_BYTES = 256, 2 * MIB
"""What may be added in a step on the average: by tensors, which are counted one by one, and by the process, whose
allocator keeps what it may need again."""


class Held(NamedTuple):
    """Bytes that are held: by tensors that Python knows or, on a GPU, that its allocator gave out; by the process."""

    tensors: int
    process: int


def measure(torch: Any, device: str) -> Held:
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        return Held(int(torch.cuda.memory_allocated()), 0)
    # by type: asking an object what it is may run its code
    tensors = [instance for instance in gc.get_objects() if issubclass(type(instance), torch.Tensor)]
    pages = read_text("/proc/self/statm").split()
    return Held(
        sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor.device.type == "cpu"),
        int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0,
    )


def growth(first: Held, last: Held, steps: int) -> Dict[str, float]:
    """Bytes that each step added, on the average."""
    return {"tensors": (last.tensors - first.tensors) / steps, "process": (last.process - first.process) / steps}


def leak(first: Held, last: Held, steps: int) -> str | None:
    """Describe memory that grows from step to step; None where it doesn't, or the steps are too few to tell."""
    if steps < LEAST_STEPS:
        return None
    grew = growth(first, last, steps)
    for kind, limit in (("tensors", TENSOR_BYTES), ("process", PROCESS_BYTES)):
        if grew[kind] > limit:
            reason = "memory grows from step to step: by %.0f KiB a step over %d steps (%s)"
            return reason % (grew[kind] / 1024, steps, "held by tensors" if kind == "tensors" else "of the process")
    return None
