"""All checks of a machine, in reading order, and those of what starts environments: container runtimes and Slurm."""

from __future__ import annotations

from collections.abc import Callable

from envspec.base.finding import Finding
from envspec.prove.doctor import nvidia, python, system
from envspec.prove.doctor.machine import Machine, Result

_REMEDY = {
    "docker": "start the daemon (systemctl start docker), or add the user to the group docker",
    "podman": "run `podman info`; rootless podman needs /etc/subuid and user namespaces",
}


def containers(machine: Machine) -> Result:
    """Check docker, podman, apptainer and singularity, and NVIDIA's container toolkit."""
    engines = [tool for tool in machine.containers if not tool.name.startswith("nvidia")]
    if not engines:
        return Result("containers", "none", "PATH has none of docker, podman, apptainer and singularity")
    told = ", ".join(f"{tool.name} {tool.version or '(no version)'}" for tool in machine.containers)
    findings = [
        Finding(
            "warning",
            "container-unusable",
            f"{tool.name} is installed but can't be used: {tool.problem}",
            remedy=_REMEDY.get(tool.name, f"run `{tool.name} version`"),
        )
        for tool in engines
        if tool.problem
    ]
    needs_toolkit = all(tool.name in ("docker", "podman") for tool in engines)
    if machine.nvidia.driver and needs_toolkit and len(engines) == len(machine.containers):
        message = "docker and podman reach a GPU only through NVIDIA's container toolkit, and nvidia-ctk isn't on PATH"
        remedy = "install nvidia-container-toolkit, or use `apptainer --nv`, which works without it"
        findings.append(Finding("warning", "container-toolkit-missing", message, remedy=remedy))
    return Result("containers", "ok", told, tuple(findings))


def slurm(machine: Machine) -> Result:
    """Check Slurm's partitions and their GPUs."""
    found = machine.slurm
    if found is None:
        return Result("Slurm", "none", "sinfo isn't on PATH")
    if found.problem:
        remedy = "check that this is a login node of the cluster and that slurmctld is up (`scontrol ping`)"
        finding = Finding("warning", "slurm-silent", f"sinfo fails: {found.problem}", remedy=remedy)
        return Result("Slurm", "unknown", found.version or "no version", (finding,))
    gpus = [f"{name} ({resources})" for name, resources in found.partitions.items() if "gpu" in resources]
    told = f"with GPUs: {', '.join(gpus)}" if gpus else "no partition lists GPUs"
    return Result("Slurm", "ok", f"{found.version or 'no version'}; {told}")


Check = Callable[[Machine], Result]

HARDWARE: tuple[Check, ...] = (nvidia.driver, nvidia.nvml, nvidia.devices, system.glibc)
"""The checks that decide whether a spec can run here."""

CPU: tuple[Check, ...] = (system.glibc,)
"""The same for a spec without CUDA."""

CHECKS: tuple[Check, ...] = (
    *HARDWARE,
    nvidia.libraries,
    system.shared_memory,
    system.space,
    system.user_namespaces,
    containers,
    slurm,
    python.interpreter,
    python.leaks,
    python.compiler,
    python.conda,
)


def examine(machine: Machine, checks: tuple[Check, ...] = CHECKS) -> tuple[Result, ...]:
    """Run checks on a machine. Pure: they know only `machine`."""
    return tuple(check(machine) for check in checks)
