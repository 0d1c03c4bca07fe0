"""Rules for GPUs on one chip with the CPU: Jetson and DRIVE run what is made for Arm, from their JetPack's CUDA on."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.rules.case import Case, Problem
from envspec.rules.driver import first_jetpack

INSTEAD = "name NVIDIA's index with PyTorch's wheels for its JetPack in [pip] indexes, and torch in [pip] sources"
"""What a Jetson without a build of PyTorch's own can do."""


def problems(case: Case) -> Iterator[Problem]:
    """Find what is wrong between a target's platform or CUDA and its Jetsons, torch aside."""
    names = list(dict.fromkeys(gpu.name for gpu in case.gpus if gpu.integrated))
    if not names or case.cuda is None:
        return
    if case.platform != "linux-aarch64":
        yield Problem(
            "error",
            "jetson",
            "gpus",
            f"{', '.join(names)} shares a chip with an Arm CPU, and the target is for {case.platform}",
            'set platform = "linux-aarch64"',
        )
    elif jetpack := first_jetpack(case, case.cuda):
        yield Problem(
            "info",
            "jetpack",
            "gpus",
            f"{', '.join(names)} runs CUDA {case.cuda} with JetPack {jetpack} or newer",
        )
