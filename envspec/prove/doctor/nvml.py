"""NVIDIA's hardware as the kernel and NVML report it.

The kernel's files come first: they exist without NVML, and show whether a driver is loaded. NVML
(through nvidia-ml-py) adds capability, memory and MIG, and whether the user space fits the kernel module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envspec.prove.doctor.machine import Device, Nvidia

_VENDOR = "0x10de"
_DISPLAY = "0x03"
"""The PCI class of display controllers: VGA and 3D."""


def read_nvidia(
    root: Path, visible: str | None, nvml: Callable[[], tuple[str, tuple[Device, ...], str | None]] | None = None
) -> Nvidia:
    """Read NVIDIA's side of the machine whose file system begins at `root`. `nvml` stands in for NVML in tests."""
    driver = kernel_driver(root)
    state, devices, told = (nvml or ask_nvml)()
    return Nvidia(
        pci=pci_devices(root),
        driver=driver or told,
        nvml=state,
        devices=devices or kernel_devices(root),
        closed=closed_files(root),
        visible=visible,
    )


def kernel_driver(root: Path) -> str | None:
    """Read the version of the loaded kernel module, None if none is loaded."""
    try:
        text = (root / "proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"Kernel Module.*?\s(\d+(?:\.\d+){1,2})\s", text)
    return found[1] if found else None


def kernel_devices(root: Path) -> tuple[Device, ...]:
    """List the GPUs that the kernel module reports."""
    names = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        try:
            found = re.search(r"^Model:\s*(.+?)\s*$", path.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        except OSError:
            continue
        names.append(found[1] if found else "unknown")
    return tuple(Device(name) for name in names)


def pci_devices(root: Path) -> tuple[str, ...]:
    """List the PCI addresses of NVIDIA's display devices. Also empty if the bus isn't visible (WSL, some sandboxes)."""
    found = []
    for folder in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor, kind = (
                (folder / name).read_text(encoding="utf-8", errors="replace").strip() for name in ("vendor", "class")
            )
        except OSError:
            continue
        if vendor == _VENDOR and kind.startswith(_DISPLAY):
            found.append(folder.name)
    return tuple(found)


def closed_files(root: Path) -> tuple[str, ...]:
    """List the device files of GPUs that this user can't open."""
    files = sorted(path for path in (root / "dev").glob("nvidia*") if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", path.name))
    return tuple(f"/dev/{path.name}" for path in files if not os.access(path, os.R_OK | os.W_OK))


def ask_nvml() -> tuple[str, tuple[Device, ...], str | None]:
    """Ask NVML: returns its answer (see `Nvidia.nvml`), the GPUs and the driver's version."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return "no-module", (), None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        missing = getattr(error, "value", None) == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        return "no-library" if missing else str(error), (), None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        devices = tuple(_device(pynvml, handle) for handle in handles)
        return "answered", devices, _text(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return str(error), (), None
    finally:
        pynvml.nvmlShutdown()


def _device(pynvml: Any, handle: Any) -> Device:
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    try:
        memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError:  # a card that shares the host's memory has none of its own
        memory = None
    try:
        mig = bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
    except pynvml.NVMLError:
        mig = False
    return Device(_text(pynvml.nvmlDeviceGetName(handle)), f"{major}.{minor}", memory, mig)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
