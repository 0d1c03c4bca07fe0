"""NVIDIA's driver, asked by its own library: the GPUs that this process has, whatever framework uses them."""

from __future__ import annotations

import ctypes
from typing import Any

MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of cuda.h."""


class Driver:
    """libcuda by ctypes. Its GPUs are those of CUDA_VISIBLE_DEVICES, by their number there."""

    def __init__(self, library: Any = None) -> None:
        """Raises OSError where it can't be used."""
        self.library = library or ctypes.CDLL("libcuda.so.1")
        self.must("cuInit", 0)

    def must(self, function: str, *given: Any) -> None:
        status = getattr(self.library, function)(*given)
        if status:
            raise OSError(f"{function} gives {status}")

    def number(self, function: str, *given: Any) -> int:
        result = ctypes.c_int()
        self.must(function, ctypes.byref(result), *given)
        return result.value

    def gpus(self) -> list[dict[str, Any]]:
        """Return the name, the compute capability and the memory of each GPU. Raises OSError."""
        gpus = []
        for index in range(self.number("cuDeviceGetCount")):
            device = self.number("cuDeviceGet", index)
            name, size = ctypes.create_string_buffer(96), ctypes.c_size_t()
            self.must("cuDeviceGetName", name, 96, device)
            self.must("cuDeviceTotalMem_v2", ctypes.byref(size), device)
            capability = [self.number("cuDeviceGetAttribute", which, device) for which in (MAJOR, MINOR)]
            facts = {"name": name.value.decode("utf-8", "replace"), "capability": "%d.%d" % tuple(capability)}
            gpus.append({**facts, "memory_bytes": size.value})
        return gpus

    def memory(self, index: int = 0) -> tuple[int, int]:
        """Return the free and the whole memory of a GPU, in bytes. Raises OSError."""
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        device = self.number("cuDeviceGet", index)
        self.must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            self.must("cuCtxPushCurrent_v2", context)
            self.must("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            self.must("cuCtxPopCurrent_v2", ctypes.byref(context))
        finally:
            self.must("cuDevicePrimaryCtxRelease_v2", device)
        return free.value, total.value


def driver_gpus() -> list[dict[str, Any]]:
    """Return the GPUs that the driver gives this process; none where there is no driver, or it gives none."""
    try:
        return Driver().gpus()
    except (OSError, AttributeError):
        return []
