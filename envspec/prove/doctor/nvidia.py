"""Checks of NVIDIA's side: the driver, NVML, the GPUs, and CUDA libraries that hide those of the wheels."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.base.texts import few, memory_size, plural
from envspec.facts import gpus, toolkits
from envspec.facts.compute_capability import sm_of
from envspec.packages.version_numbers import numbers
from envspec.prove.doctor.machine import Device, Machine, Nvidia
from envspec.prove.doctor.result import Result

_NOTHING = "no NVIDIA GPU here: no NVIDIA device on the PCI bus and no driver loaded"


def driver(machine: Machine) -> Result:
    """Check that the kernel driver is loaded, and say which CUDA runs on it (NVIDIA, CUDA Compatibility)."""
    nvidia = machine.nvidia
    if nvidia.driver is None:
        if not nvidia.pci:
            return Result("driver", "none", _NOTHING)
        return Result(
            "driver",
            "none",
            f"{plural(len(nvidia.pci), 'NVIDIA device')} on the PCI bus, and no driver is loaded",
            (
                Finding(
                    "error",
                    "driver-missing",
                    f"this machine has NVIDIA hardware ({', '.join(nvidia.pci[:4])}), but its driver isn't loaded",
                    remedy="install the driver and load it (modprobe nvidia); in a container, start it with"
                    " --gpus all (docker), --device nvidia.com/gpu=all (podman) or --nv (apptainer)",
                ),
            ),
        )
    return Result("driver", "ok", f"{nvidia.driver}: {runs(nvidia.driver, machine.platform)}")


def runs(version: str, platform: str) -> str:
    """Name the CUDA versions that a driver runs natively and by minor-version compatibility."""
    try:
        driver = numbers(version)
    except ValueError:
        return "a version that envspec can't read"
    platform = toolkits.platform_of(version, platform)  # Windows's, under WSL
    native = [t for t in toolkits.cuda_releases() if (own := t.native(platform)) and numbers(own) <= driver]
    compatible = [
        t
        for t in toolkits.cuda_releases()
        if (lower_bound := t.compatible(platform)) and numbers(lower_bound) <= driver
    ]
    if not compatible:
        return f"too old for CUDA {toolkits.cuda_releases()[0].version} and newer"
    most = f"CUDA {native[-1].version} and older natively" if native else "no CUDA that envspec knows natively"
    major = compatible[-1].major
    if native and native[-1] == compatible[-1]:
        return most
    return f"{most}, all of CUDA {major} by minor-version compatibility"


def nvml(machine: Machine) -> Result:
    """Check NVIDIA's management library (NVML), with which nvidia-smi and every scheduler read GPUs."""
    nvidia = machine.nvidia
    if nvidia.nvml == "answered":
        return Result("NVML", "ok", "answers")
    if nvidia.driver is None:
        return Result("NVML", "none", "not queried: no driver is loaded")
    if nvidia.nvml == "no-module":
        return _silent(
            "nvml-not-asked", "nvidia-ml-py isn't installed", "install envspec anew: it requires nvidia-ml-py"
        )
    if nvidia.nvml == "no-library":
        remedy = (
            "install the driver's user space of the same version; in a container, set"
            " NVIDIA_DRIVER_CAPABILITIES=compute,utility (docker), or start it with --nv (apptainer)"
        )
        return _silent("nvml-missing", "the driver's libnvidia-ml.so.1 isn't found", remedy)
    mismatch = "mismatch" in nvidia.nvml.lower()
    finding = Finding(
        "error",
        "nvml-mismatch" if mismatch else "nvml-error",
        f"NVML fails: {nvidia.nvml}",
        remedy="reload the kernel module, or reboot: the driver was updated while its old module was loaded"
        if mismatch
        else "run nvidia-smi, and look in dmesg for the driver's messages (Xid)",
    )
    return Result("NVML", "unknown", "doesn't answer", (finding,))


def _silent(code: str, why: str, remedy: str) -> Result:
    message = f"{why}: envspec doesn't know the memory, compute capability and MIG mode of the GPUs"
    return Result("NVML", "unknown", "not queried", (Finding("warning", code, message, remedy=remedy),))


def devices(machine: Machine) -> Result:
    """Check that the GPUs are known, permitted and visible."""
    nvidia = machine.nvidia
    if nvidia.driver is None:
        return Result("GPUs", "none", "no driver is loaded" if nvidia.pci else _NOTHING)
    findings = tuple(_device_findings(nvidia))
    if not nvidia.devices:
        return Result("GPUs", "none", "the driver reports no GPU", findings)
    return Result("GPUs", "ok", "; ".join(_describe_gpus(nvidia.devices)), findings)


def _device_findings(nvidia: Nvidia) -> Iterator[Finding]:
    if not nvidia.devices:
        remedy = "run `dmesg | grep -i -e nvrm -e xid`; in a container or a batch job, ask for GPUs"
        yield Finding("error", "no-device", "the driver is loaded but reports no GPU", remedy=remedy)
    if nvidia.closed:
        remedy = "on a cluster, ask the scheduler for GPUs; elsewhere, add the user to the group of these files"
        yield Finding("error", "device-closed", f"this user may not open {', '.join(nvidia.closed)}", remedy=remedy)
    if nvidia.hidden:
        message = f'CUDA_VISIBLE_DEVICES is "{nvidia.visible}": programs see no GPU'
        remedy = "unset CUDA_VISIBLE_DEVICES, or ask the scheduler for GPUs"
        yield Finding("warning", "device-hidden", message, remedy=remedy)
    for device in dict.fromkeys(nvidia.devices):
        if not table_name(device):
            remedy = 'name its compute capability in the spec: gpus = ["sm_90"]'
            yield Finding("warning", "unknown-gpu", f'envspec doesn\'t know the GPU "{device.name}"', remedy=remedy)


def table_name(device: Device) -> str | None:
    """Give the name of a GPU in the tables: its own if the capability agrees, else the capability."""
    matches = gpus.find(device.name)
    if matches and (device.capability is None or matches[0].capability == device.capability):
        return device.name
    return device.capability if device.capability and gpus.find(device.capability) else None


def _describe_gpus(devices: tuple[Device, ...]) -> Iterator[str]:
    """Yield a text for each kind of GPU: count, name, and its capability, memory and MIG as far as they are known."""
    for device in dict.fromkeys(devices):
        count = devices.count(device)
        properties = [
            sm_of(device.capability) if device.capability else "",
            memory_size(device.memory) if device.memory else "",
            "MIG" if device.mig else "",
        ]
        details = ", ".join(filter(None, properties))
        yield (f"{count} × " if count > 1 else "") + device.name + (f" ({details})" if details else "")


def libraries(machine: Machine) -> Result:
    """Check for CUDA libraries on the loader's paths. Wheels have their own; an earlier one on the path replaces them.

    LD_LIBRARY_PATH and LD_PRELOAD come before a RUNPATH (ld.so(8)), the system's folders after it.
    """
    first = [library for library in machine.libraries if library.via != "ldconfig"]
    last = [library for library in machine.libraries if library.via == "ldconfig"]
    findings = []
    for via in dict.fromkeys(library.via for library in first):
        paths = [library.path for library in first if library.via == via]
        stubs = [path for path in paths if "/stubs/" in path]
        shadowing = [path for path in paths if path not in stubs]
        if stubs:
            message = f"{via} leads to stub libraries, which are only for linking: {few(stubs, 3)}"
            remedy = f"remove the `stubs` folder from {via}: with a stub, programs find no GPU"
            findings.append(Finding("error", "cuda-stub", message, remedy=remedy))
        if shadowing:
            message = f"{via} puts CUDA libraries before the wheels' own: {few(shadowing, 3)}"
            remedy = (
                f"unset {via} before running the environment, or unload the module that sets it (module unload cuda)"
            )
            findings.append(Finding("warning", "cuda-shadowed", message, remedy=remedy))
    if last:
        shown = few([library.path for library in last], 3)
        message = f"the system has CUDA libraries too ({shown}); those of the wheels come first"
        findings.append(Finding("info", "cuda-in-system", message))
    if findings:
        return Result("CUDA libraries", "ok", f"{len(machine.libraries)} outside of environments", tuple(findings))
    return Result("CUDA libraries", "ok", "none outside of environments: programs load those of the wheels")
