"""The machine, its driver and GPUs, and the torch that is there."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
import re
from typing import Any

from envspec_check.cuda_driver import driver_gpus
from envspec_check.cuda_libraries import mapped_libraries
from envspec_check.interface import Context, Outcome, passed
from envspec_check.lock import frameworks
from envspec_check.nvml import driver_version


def usable_cpus() -> int:
    """Return the CPUs that this process may use, by affinity and by its control group's quota."""
    count = len(os.sched_getaffinity(0))
    quota = read_text("/sys/fs/cgroup/cpu.max").split()
    if len(quota) == 2 and quota[0] != "max":
        count = min(count, max(1, math.ceil(int(quota[0]) / int(quota[1]))))
    return count


def memory_bytes() -> int:
    """Return the memory that this process may use, by the machine and by its control group's limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = read_text(path).strip()
        if limit.isdigit():
            total = min(total, int(limit))
    return total


def shm_bytes() -> int | None:
    """Return the size of /dev/shm; None where there is none."""
    try:
        filesystem = os.statvfs("/dev/shm")
    except OSError:
        return None
    return filesystem.f_blocks * filesystem.f_frsize


def read_text(path: str) -> str:
    """Return a file's text, empty where it can't be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def machine_facts() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "glibc": platform.libc_ver()[1] or None,
        "cpus": usable_cpus(),
        "memory_bytes": memory_bytes(),
        "shm_bytes": shm_bytes(),
        "driver": driver_version(),
        "gpus": [],
    }


def probe(ctx: Context) -> Outcome:
    """Return the facts of torch and of the GPUs that it sees; of a target without torch, the GPUs that the driver
    gives. No check: it runs before the first that imports a framework."""
    if "torch" not in frameworks(ctx.lock):
        return passed(details={"torch": None, "gpus": driver_gpus()})
    torch = ctx.torch
    about: dict[str, Any] = {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cudnn": None,
        "nccl": None,
        "architectures": arch_flags(torch),
    }
    gpus = []
    if torch.version.cuda:
        with contextlib.suppress(RuntimeError, AttributeError, OSError):
            about["cudnn"] = spelled_cudnn(torch.backends.cudnn.version())
        with contextlib.suppress(RuntimeError, AttributeError, OSError):
            about["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            facts = torch.cuda.get_device_properties(index)
            capability = "%d.%d" % (facts.major, facts.minor)
            gpus.append({"name": facts.name, "capability": capability, "memory_bytes": int(facts.total_memory)})
    return passed(details={"torch": about, "gpus": gpus})


def spelled_cudnn(number: int | None) -> str | None:
    """cuDNN's number as a version: 8902 is 8.9.2, 91002 is 9.10.2."""
    if not number:
        return None
    major, rest = divmod(number, 10000 if number >= 90000 else 1000)
    return "%d.%d.%d" % (major, rest // 100, rest % 100)


def arch_flags(torch: Any) -> list[str]:
    """List the architectures that torch's own code is compiled for: sm_90, compute_90."""
    get_flags = getattr(torch._C, "_cuda_getArchFlags", None)
    return ((get_flags() if get_flags else None) or "").split()


NO_GPU = "cuda was asked for and this process has no GPU"

NO_GPU_REMEDY = "pass the GPUs in (--gpus all, --nv, the scheduler's), or check the CPU alone: --device cpu"

SHM_REMEDY = (
    "give the container more: docker run --shm-size=8g (or --ipc=host), Kubernetes: an emptyDir of medium Memory"
)


def pci_address(torch: Any, index: int = 0) -> str:
    facts = torch.cuda.get_device_properties(index)
    if hasattr(facts, "pci_bus_id"):
        return f"{facts.pci_domain_id:08x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"
    address = ctypes.create_string_buffer(32)  # before torch 2.8 its properties don't have it
    for path in mapped_libraries(read_text("/proc/self/maps")):
        if "libcudart" in path:
            ctypes.CDLL(path).cudaDeviceGetPCIBusId(address, 32, index)
    return address.value.decode()


OTHERS = {"mig", "laptop", "d", "grid", "vgpu"}
"""Words in the name of a GPU that is less than the card whose name it has too."""


def card_of(cards: dict[str, Any], name: str, capability: str) -> dict[str, Any] | None:
    """Return the facts of a GPU, by its name as the driver has it: the card with the most words in it, of its
    capability. None for a part of a card."""
    words = set(re.split(r"[^a-z0-9]+", name.lower()))
    best: tuple[int, dict[str, Any] | None] = 0, None
    sold = [
        (form, {**card, **more}, key) for key, card in cards.items() for form, more in card.get("forms", {}).items()
    ]
    for key, card, product in [*((key, card, key) for key, card in cards.items()), *sold]:
        own = {word for word in re.split(r"[^a-z0-9]+", key.lower()) if word}
        if card.get("capability") == capability and own <= words and not (words - own) & OTHERS and len(own) > best[0]:
            best = len(own), {"name": key, "product": product, **card}
    return best[1]


def from_ampere(torch: Any, device: str) -> bool:
    """Return whether the GPU computes in bf16 and TF32 itself: from Ampere on. Newer torch emulates bf16 before."""
    return device == "cuda" and tuple(torch.cuda.get_device_capability()) >= (8, 0)
