"""static.cuda_versions: the cuDNN and NCCL that are loaded are the locked ones."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

from envspec_check.interface import Context, Outcome, Skip, check, failed, passed
from envspec_check.lock import Pin, numbers, pins
from envspec_check.machine import spelled_cudnn

NAMES = {"cuDNN": r"(nvidia-|lib)?cudnn(-cu\d+)?", "NCCL": r"(nvidia-)?nccl(-cu\d+)?"}
"""The packages that bring each library, from PyPI and from conda-forge."""

REMEDY = "unset LD_LIBRARY_PATH and LD_PRELOAD, or unload the cluster's cuDNN and NCCL modules"


def other_versions(loaded: Mapping[str, Optional[str]], locked: Mapping[str, Pin]) -> list[str]:
    """Which libraries are of another version than their package: by three numbers, a fourth is the package's own."""
    return [
        f"{name} {loaded[name]} is loaded, locked is {pin.name} {pin.version}"
        for name, pin in locked.items()
        if loaded.get(name) and numbers(loaded[name] or "")[:3] != numbers(pin.version)[:3]
    ]


def loaded_versions(torch: Any) -> Dict[str, Optional[str]]:
    """What the libraries say themselves. torch raises where cuDNN isn't the one that it was compiled for."""
    nccl: Tuple[Any, ...] = ()
    if hasattr(torch._C, "_nccl_version"):
        nccl = torch.cuda.nccl.version()
    return {"cuDNN": spelled_cudnn(torch.backends.cudnn.version()), "NCCL": ".".join(map(str, nccl[:3])) or None}


@check("static.cuda_versions")
def static_cuda_versions(ctx: Context) -> Outcome:
    """cuDNN and NCCL are the ones that the target locks."""
    torch = ctx.torch
    if not torch.version.cuda:
        raise Skip("this torch is built for CPUs: it loads neither cuDNN nor NCCL")
    locked = {name: pin for name, says in NAMES.items() for pin in pins(ctx.lock) if re.fullmatch(says, pin.name)}
    try:
        loaded = loaded_versions(torch)
    except RuntimeError as error:
        return failed(str(error).strip().partition("\n")[0], REMEDY)
    details = {"loaded": loaded, "locked": {name: pin.version for name, pin in locked.items()}}
    wrong = other_versions(loaded, locked)
    if wrong:
        return failed("; ".join(wrong), REMEDY, details=details)
    if not locked:
        raise Skip("the target locks neither: this torch brings its own", details=details)
    return passed(details=details)
