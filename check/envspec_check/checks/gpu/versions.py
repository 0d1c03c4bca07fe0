"""static.cuda_versions: the cuDNN and NCCL that are loaded are the locked ones."""

from __future__ import annotations

import re

from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.lock import numbers, pins
from envspec_check.machine import spelled_cudnn

NAMES = {"cuDNN": r"(nvidia-|lib)?cudnn(-cu\d+)?", "NCCL": r"(nvidia-)?nccl(-cu\d+)?"}
"""The packages that bring each library, from PyPI and from conda-forge."""


@check("static.cuda_versions")
def static_cuda_versions(ctx: Context) -> Outcome:
    """cuDNN and NCCL are the ones that the target locks, by three numbers: a fourth is the package's own."""
    torch, remedy = ctx.torch, "unset LD_LIBRARY_PATH and LD_PRELOAD, or unload the cluster's cuDNN and NCCL modules"
    if not torch.version.cuda:
        raise Skip("this torch is built for CPUs: it loads neither cuDNN nor NCCL")
    locked = {name: pin for name, says in NAMES.items() for pin in pins(ctx.lock) if re.fullmatch(says, pin.name)}
    try:
        loaded = {"cuDNN": spelled_cudnn(torch.backends.cudnn.version()) or ""}
        loaded["NCCL"] = ".".join(map(str, torch.cuda.nccl.version())) if hasattr(torch._C, "_nccl_version") else ""
    except RuntimeError as error:  # cuDNN isn't the one that torch was compiled for
        return failed(str(error).strip().partition("\n")[0], remedy)
    details = {"loaded": loaded, "locked": {name: pin.version for name, pin in locked.items()}}
    other = [name for name in locked if loaded[name] and numbers(loaded[name])[:3] != numbers(locked[name].version)[:3]]
    if other:
        differences = [
            f"{name} {loaded[name]} is loaded, locked is {locked[name].name} {locked[name].version}" for name in other
        ]
        return failed("; ".join(differences), remedy, details=details)
    if not locked:
        raise Skip("the target locks neither: this torch brings its own", details=details)
    return passed(details=details)
