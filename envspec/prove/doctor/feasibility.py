"""The feasibility of a spec on given hardware: which targets can work there, and why the others can't."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.finding import Finding, errors
from envspec.facts import gpus
from envspec.packages.version_numbers import minor_of, numbers
from envspec.rules.judge import Verdict, judge
from envspec.spec.model import Spec, Target

if TYPE_CHECKING:
    from envspec.prove.doctor.machine import Machine


class Hardware(Struct, frozen=True):
    """The hardware that a spec is judged on. A value that is None or empty comes from each target.

    gpus      names that `envspec.facts.gpus.find` knows
    platform  None: every target's own
    pythons   versions with an interpreter here ("3.12"); None: not judged
    """

    gpus: tuple[str, ...] = ()
    driver: str | None = None
    glibc: str | None = None
    platform: str | None = None
    pythons: tuple[str, ...] | None = None


def hardware_of(machine: Machine) -> Hardware:
    """Take the hardware of a machine that a spec is judged on."""
    from envspec.prove.doctor.nvidia import table_name

    names = (table_name(device) for device in machine.nvidia.devices)
    driver = machine.nvidia.driver
    return Hardware(
        gpus=tuple(dict.fromkeys(name for name in names if name)),
        driver=driver if driver and driver.replace(".", "").isdecimal() else None,
        glibc=machine.glibc,
        platform=machine.platform,
        pythons=tuple(dict.fromkeys((*machine.pythons.versions, minor_of(machine.pythons.version)))),
    )


class Feasibility(Struct, frozen=True):
    """feasible    the rules find no error; `torch` has the releases that the target can take, newest first
    infeasible     the rules find an error
    elsewhere      the target is for other hardware and isn't judged: `reason` says for which
    A target for another platform is judged on paper, by what it says itself: `reason` says so.
    """

    target: str
    status: Literal["feasible", "infeasible", "elsewhere"]
    torch: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    reason: str | None = None


def assess(
    spec: Spec, hardware: Hardware, only: Collection[str] = (), judge: Callable[[Spec, Target], Verdict] = judge
) -> tuple[Feasibility, ...]:
    """Judge each target, or those named by `only`, in the spec's order, by the rules or as `judge` does.

    A target for other GPUs than these isn't judged, unless `only` names it or no target of the spec is for these GPUs.
    """
    targets = [target for target in spec.targets if not only or target.name in only]
    meant = [target for target in targets if _is_meant(target, hardware)]
    chosen = targets if only or not any(target.cuda for target in meant) else meant
    return tuple(
        replace(_verdict(spec, target, Hardware(), judge), reason=_reason(target, hardware))
        if not _fits_platform(target, hardware)
        else _verdict(spec, target, hardware, judge)
        if target in chosen
        else Feasibility(target.name, "elsewhere", reason=_reason(target, hardware))
        for target in targets
    )


def on_hardware(target: Target, hardware: Hardware) -> Target:
    """Rewrite the target for this hardware. A CPU target stays one."""
    gpu = hardware.gpus if target.cuda else ()
    driver = hardware.driver if target.cuda else None
    return replace(
        target, gpus=gpu or target.gpus, driver=driver or target.driver, glibc=hardware.glibc or target.glibc
    )


def overall(spec: Spec, hardware: Hardware) -> tuple[Finding, ...]:
    """Find the obstacles to the whole spec on this hardware."""
    findings = (_no_gpu(spec, hardware), _no_python(spec, hardware))
    return tuple(finding for finding in findings if finding is not None)


def _verdict(spec: Spec, target: Target, hardware: Hardware, judge: Callable[[Spec, Target], Verdict]) -> Feasibility:
    verdict = judge(spec, on_hardware(target, hardware))
    older = _older_glibc(target, hardware, verdict.findings)
    findings = (*verdict.findings, older) if older else verdict.findings
    if errors(findings):
        return Feasibility(target.name, "infeasible", findings=findings)
    return Feasibility(target.name, "feasible", verdict.feasible, findings)


def _older_glibc(target: Target, hardware: Hardware, findings: tuple[Finding, ...]) -> Finding | None:
    here = hardware.glibc
    if (
        here is None
        or not target.platform.startswith("linux")
        or numbers(here) >= numbers(target.glibc)
        or any(finding.code == "glibc-too-old" for finding in findings)
    ):
        return None
    return Finding(
        "error",
        "glibc-below-target",
        f"the machine has glibc {here}, and the target is locked for {target.glibc}, which its wheels may need",
        target.places.get("glibc") or target.place,
        f'set glibc = "{here}" in the target and lock again',
    )


def _no_gpu(spec: Spec, hardware: Hardware) -> Finding | None:
    if hardware.gpus or hardware.platform is None or not any(target.cuda for target in spec.targets):
        return None
    message = "this machine has no GPU that envspec knows: envspec judges CUDA targets by the GPUs that they name"
    remedy = "run this on the machine with the GPUs, or describe that machine: --gpu H100 --driver 570.86.15"
    return Finding("warning", "no-gpu-here", message, remedy=remedy)


def _no_python(spec: Spec, hardware: Hardware) -> Finding | None:
    if hardware.pythons is None or spec.python in hardware.pythons:
        return None
    return Finding(
        "warning",
        "no-python",
        f"there is no Python {spec.python} on PATH",
        spec.places.get("env.python"),
        f"run `uv python install {spec.python}`, or use an image of `envspec export`, which has its own Python",
    )


def _is_meant(target: Target, hardware: Hardware) -> bool:
    """Return whether a target is for these GPUs: for a platform on which a GPU exists, and for one of their compute
    capabilities or none in particular."""
    if target.cuda and hardware.gpus and not any(gpus.on_platform(name, target.platform) for name in hardware.gpus):
        return False
    if not target.cuda or not target.gpus or not hardware.gpus:
        return True
    return bool(_capabilities(target.gpus) & _capabilities(hardware.gpus))


def _fits_platform(target: Target, hardware: Hardware) -> bool:
    return hardware.platform in (None, target.platform)


def _reason(target: Target, hardware: Hardware) -> str:
    if not _fits_platform(target, hardware):
        return f"on paper: for {target.platform}, and this machine is {hardware.platform}"
    of = ", ".join(target.gpus) or target.platform
    return f"for {of}; another target is for {', '.join(hardware.gpus)}"


def _capabilities(names: Collection[str]) -> set[str]:
    return {gpu.capability for name in names for gpu in gpus.find(name)}
