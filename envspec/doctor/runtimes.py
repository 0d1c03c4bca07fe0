"""Checks of what environments are started with: container runtimes, and Slurm."""

from __future__ import annotations

from envspec.doctor.machine import Machine
from envspec.doctor.result import Result
from envspec.rules.finding import Finding

_REMEDY = {
    "docker": "start the daemon (systemctl start docker), or add the user to the group docker",
    "podman": "see `podman info`; rootless podman needs /etc/subuid and user namespaces",
}


def containers(machine: Machine) -> Result:
    """docker, podman, apptainer and singularity, and NVIDIA's container toolkit beside them."""
    engines = [tool for tool in machine.containers if not tool.name.startswith("nvidia")]
    if not engines:
        return Result("containers", "none", "neither docker nor podman, apptainer or singularity is on PATH")
    told = ", ".join(f"{tool.name} {tool.version or '(no version)'}" for tool in machine.containers)
    findings = [
        Finding(
            "warning",
            "container-unusable",
            f"{tool.name} is installed and can't be used: {tool.problem}",
            remedy=_REMEDY.get(tool.name, f"see what `{tool.name} version` says"),
        )
        for tool in engines
        if tool.problem
    ]
    needs_toolkit = all(tool.name in ("docker", "podman") for tool in engines)
    if machine.nvidia.driver and needs_toolkit and len(engines) == len(machine.containers):
        message = "docker and podman reach a GPU through NVIDIA's container toolkit only, and nvidia-ctk isn't on PATH"
        remedy = "install nvidia-container-toolkit; apptainer --nv does without it"
        findings.append(Finding("warning", "container-toolkit-missing", message, remedy=remedy))
    return Result("containers", "ok", told, tuple(findings))


def slurm(machine: Machine) -> Result:
    """Slurm's partitions and their GPUs."""
    found = machine.slurm
    if found is None:
        return Result("Slurm", "none", "sinfo isn't on PATH")
    if found.problem:
        remedy = "see whether this is a login node of the cluster, and whether slurmctld is up (scontrol ping)"
        finding = Finding("warning", "slurm-silent", f"sinfo fails: {found.problem}", remedy=remedy)
        return Result("Slurm", "unknown", found.version or "no version", (finding,))
    gpus = [f"{name} ({resources})" for name, resources in found.partitions.items() if "gpu" in resources]
    told = f"with GPUs: {', '.join(gpus)}" if gpus else "no partition names a GPU"
    return Result("Slurm", "ok", f"{found.version or 'no version'}; {told}")
