"""Rules for GPUs on one chip with the CPU: Jetson and DRIVE run what is made for Arm, from their JetPack's CUDA on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envspec.base.finding import Finding
from envspec.rules.case import Case
from envspec.rules.driver import SERVERS_TOO, first_jetpack

INSTEAD = "name NVIDIA's index with PyTorch's wheels for its JetPack in [pip] indexes, and torch in [pip] sources"
"""What a Jetson without a build of PyTorch's own can do."""


_NAMED = 2
"""The number of wheels that a message names before it counts the rest."""


def problems(case: Case) -> Iterator[Finding]:
    """Find what is wrong between a target's platform or CUDA and its Jetsons, torch aside."""
    names = list(dict.fromkeys(gpu.name for gpu in case.gpus if gpu.integrated))
    if not names or case.cuda is None:
        return
    if case.platform != "linux-aarch64":
        yield Finding(
            "error",
            "jetson",
            f"{', '.join(names)} shares a chip with an Arm CPU, and the target is for {case.platform}",
            key="gpus",
            remedy='set platform = "linux-aarch64"',
        )
    elif jetpack := first_jetpack(case, case.cuda):
        yield Finding(
            "info", "jetpack", f"{', '.join(names)} runs CUDA {case.cuda} with JetPack {jetpack} or newer", key="gpus"
        )


def for_servers(case: Case, wheels: Sequence[str]) -> Iterator[Finding]:
    """Find what is wrong with wheels that are made for CUDA on Arm servers, by name and version: up to CUDA 12, those
    don't run on a Jetson."""
    modules = [gpu for gpu in case.gpus if gpu.integrated]
    if not wheels or not modules or case.cuda is None or case.platform != "linux-aarch64":
        return
    if int(case.cuda.partition(".")[0]) >= SERVERS_TOO:
        return
    jetpack = first_jetpack(case, f"{SERVERS_TOO}.0")
    listed = ", ".join(wheels[:_NAMED]) + (f" and {len(wheels) - _NAMED} more" if len(wheels) > _NAMED else "")
    are = "are wheels" if len(wheels) > 1 else "is a wheel"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in modules))
    newer = f"take CUDA {SERVERS_TOO}.0 and JetPack {jetpack}; or " if jetpack else ""
    yield Finding(
        "error",
        "jetson",
        f"{listed} {are} for Arm servers, and {names} runs none of those before CUDA {SERVERS_TOO}",
        key="gpus",
        remedy=f"{newer}take wheels that are built for its JetPack, of an index that you name in [pip] indexes",
    )
