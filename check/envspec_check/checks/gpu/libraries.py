"""static.libraries and static.architectures: the CUDA libraries that torch uses, and what it is compiled for."""

from __future__ import annotations

import os
from typing import Sequence

from envspec_check.capability import covers
from envspec_check.cuda_libraries import is_cuda_library, mapped_libraries
from envspec_check.environment import is_within, own_paths, own_roots
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed, some
from envspec_check.machine import arch_flags, read_text


def real_folders(roots: Sequence[str]) -> set[str]:
    """Resolve the paths of the environment's CUDA libraries: an installer may have made links of them."""
    paths: set[str] = set()
    for root in own_paths():
        for folder, _, names in os.walk(root):
            paths.update(os.path.realpath(os.path.join(folder, name)) for name in names if is_cuda_library(name))
    return paths


@check("static.libraries")
def static_libraries(ctx: Context) -> Outcome:
    """The CUDA libraries that torch uses are loaded from the environment."""
    torch = ctx.torch
    if not torch.version.cuda:
        raise Skip("this torch is built for CPUs: it loads no CUDA library")
    torch.backends.cudnn.version()
    if ctx.device == "cuda":
        x = torch.ones(4, 3, 16, 16, device="cuda")
        torch.nn.functional.conv2d(x, torch.ones(8, 3, 3, 3, device="cuda")).flatten(1).matmul(
            torch.ones(8 * 14 * 14, 4, device="cuda")
        )
        torch.fft.rfft(x.flatten()).abs().sum().item()
        torch.linalg.solve(torch.eye(8, device="cuda"), torch.ones(8, 1, device="cuda"))
    loaded = mapped_libraries(read_text("/proc/self/maps"))
    outside = [path for path in loaded if not is_within(path, own_roots())]
    if outside:
        own = real_folders(own_roots())
        outside = [path for path in outside if path not in own]
    if outside:
        remedy = "unset LD_LIBRARY_PATH, or unload the cluster's CUDA and cuDNN modules"
        reason = f"loaded from outside the environment: {some(outside, 3)}"
        return failed(reason, remedy, details={"loaded": loaded})
    return passed(details={"loaded": loaded})


@check("static.architectures")
def static_architectures(ctx: Context) -> Outcome:
    """torch is compiled for the target's GPUs."""
    expected = ctx.target.get("architectures", [])
    if not expected:
        raise Skip("the target is for CPUs")
    flags = arch_flags(ctx.torch)
    details = {"compiled": flags, "wanted": expected}
    without = [architecture for architecture in expected if not covers(flags, architecture, ctx.torch.version.cuda)]
    if without:
        built = " ".join(flags) or "no GPU at all"
        reason = "torch has no code for {}: it is compiled for {}".format(", ".join(without), built)
        return failed(reason, "choose a target with another CUDA or torch, then lock again", details=details)
    return passed(details=details)
