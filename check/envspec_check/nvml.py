"""NVIDIA's driver and its management library. Imports little: an image asks it at each start."""

from __future__ import annotations

import ctypes
import re
from typing import Any


class Nvml:
    """NVIDIA's management library, by ctypes. Its calls are C's and give 0 when they worked."""

    def __init__(self, library: Any = None) -> None:
        """Raises OSError where it can't be used."""
        self.library = library or ctypes.CDLL("libnvidia-ml.so.1")
        if self.library.nvmlInit_v2() != 0:
            raise OSError("NVML can't be started")

    def driver(self) -> str | None:
        text = ctypes.create_string_buffer(96)
        return text.value.decode() if self.library.nvmlSystemGetDriverVersion(text, 96) == 0 else None

    def cuda(self) -> str | None:
        """Return the driver's own CUDA, up to which it compiles PTX."""
        number, ask = ctypes.c_int(0), getattr(self.library, "nvmlSystemGetCudaDriverVersion_v2", None)
        known = ask and ask(ctypes.byref(number)) == 0 and number.value
        return f"{number.value // 1000}.{number.value % 1000 // 10}" if known else None

    def gpus(self) -> list[tuple[str, str]]:
        """Return the name and the compute capability of each GPU."""
        gpus = []
        for device in self.devices():
            major, minor, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(96)
            own = self.library.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor))
            if own == 0:
                self.library.nvmlDeviceGetName(device, name, 96)
                gpus.append((name.value.decode("utf-8", "replace") or "a GPU", f"{major.value}.{minor.value}"))
        return gpus

    def devices(self) -> list[ctypes.c_void_p]:
        count, handles = ctypes.c_uint(0), []
        self.library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for number in range(count.value):
            handle = ctypes.c_void_p()
            if self.library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) == 0:
                handles.append(handle)
        return handles

    def device_at(self, pci: str) -> ctypes.c_void_p | None:
        """Return the device with a PCI address such as 0000:3b:00.0, which CUDA_VISIBLE_DEVICES doesn't renumber."""
        handle = ctypes.c_void_p()
        done = self.library.nvmlDeviceGetHandleByPciBusId_v2(pci.encode(), ctypes.byref(handle))
        return handle if done == 0 else None

    def utilisation(self, device: ctypes.c_void_p) -> int | None:
        """Return the share of the last moments in which the GPU worked, in percent. None where it can't tell, as with
        MIG."""
        rates = (ctypes.c_uint * 2)()
        return int(rates[0]) if self.library.nvmlDeviceGetUtilizationRates(device, rates) == 0 else None

    def number(self, function: str, device: ctypes.c_void_p, *given: int) -> int | None:
        """Read a number by a function of NVML. None where the driver, the card or a MIG instance can't tell."""
        value, ask = ctypes.c_ulonglong(0), getattr(self.library, function, None)
        return int(value.value) if ask and ask(device, *given, ctypes.byref(value)) == 0 else None

    def links(self) -> int:
        """Count the NVLinks of all devices that are up; a device has 18 at most."""
        ask = "nvmlDeviceGetNvLinkState"
        return sum(self.number(ask, device, at) == 1 for device in self.devices() for at in range(18))

    def remapped_rows(self, device: ctypes.c_void_p) -> list[int] | None:
        """Rows that were replaced for corrected and for other errors, whether some wait, whether one couldn't be."""
        counts, ask = [ctypes.c_uint(0) for _ in range(4)], getattr(self.library, "nvmlDeviceGetRemappedRows", None)
        return [int(count.value) for count in counts] if ask and ask(device, *map(ctypes.byref, counts)) == 0 else None


def nvml() -> Nvml | None:
    try:
        return Nvml()
    except (OSError, AttributeError):
        return None


def driver_version() -> str | None:
    """NVIDIA's driver: by NVML, else by what the kernel module says of itself."""
    library = nvml()
    return (library and library.driver()) or kernel_driver()


def kernel_driver(path: str = "/proc/driver/nvidia/version") -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            match = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+){1,2})\s", file.read())
    except OSError:
        return None
    return match.group(1) if match else None
