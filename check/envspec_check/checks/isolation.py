"""static.isolation and static.library_path: nothing comes from outside the environment."""

from __future__ import annotations

import os
import re
import site
import sys
from typing import Sequence

from envspec_check.cuda_libraries import is_cuda_library
from envspec_check.environment import FOLDER, distributions, is_within, own_paths, own_roots
from envspec_check.interface import Context, Outcome, check, failed, passed, some


def leaks(paths: Sequence[str], roots: Sequence[str], standard: Sequence[str], user: str) -> list[tuple[str, str]]:
    """Return the entries of sys.path that aren't the environment's, each with what it is. `standard`: where the
    standard library is; `user`: the user site."""
    python_path = [os.path.realpath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    entries = []
    for path in paths:
        real = os.path.realpath(path or ".")
        if is_within(real, roots) or not os.path.exists(real):
            continue
        third_party = os.path.basename(real) in ("site-packages", "dist-packages")
        if is_within(real, standard) and not third_party:
            continue
        if user and is_within(real, [os.path.realpath(user)]):
            entries.append((path, "the user site"))
        elif real in python_path:
            entries.append((path, "PYTHONPATH"))
        else:
            entries.append((path, "the base Python's packages" if third_party else "not the environment's"))
    return entries


@check("static.isolation", torch=False)
def static_isolation(ctx: Context) -> Outcome:
    """Python imports from the environment alone."""
    base = {sys.base_prefix, sys.base_exec_prefix}
    standard = sorted({*base, *map(os.path.realpath, base), os.path.realpath(os.path.dirname(os.__file__))})
    user = site.getusersitepackages()
    leaking = leaks([path for path in sys.path if path != FOLDER], own_roots(), standard, user)
    details = {
        "path": list(sys.path),
        "user_site": bool(site.ENABLE_USER_SITE),
        "leaks": [list(leak) for leak in leaking],
    }
    if not leaking:
        return passed(details=details)
    own = {package.name for package in distributions(own_paths())}
    shadowed = [
        f"{package.name} {package.version}"
        for package in distributions([path for path, _ in leaking])
        if package.name in own
    ]
    reason = "packages come from outside the environment: " + some([f"{path} is {kind}" for path, kind in leaking], 3)
    if shadowed:
        reason += f" (it too has {some(shadowed, 3)})"
    kinds = {kind for _, kind in leaking}
    remedies = [
        "export PYTHONNOUSERSITE=1" if "the user site" in kinds else "",
        "unset PYTHONPATH" if "PYTHONPATH" in kinds else "",
        "make the environment without the system's packages" if "the base Python's packages" in kinds else "",
    ]
    return failed(reason, "; ".join(filter(None, remedies)) or "look for .pth files in site-packages", details=details)


def first_on_path(environ: dict[str, str], roots: Sequence[str]) -> list[str]:
    """CUDA libraries outside the environment that the loader would take first, by LD_PRELOAD and LD_LIBRARY_PATH."""
    libraries = [path for path in re.split(r"[ :]+", environ.get("LD_PRELOAD", "")) if is_cuda_library(path)]
    taken: set[str] = set()
    for folder in re.split("[:;]", environ.get("LD_LIBRARY_PATH", "")):
        try:
            names = sorted(os.listdir(folder or "."))
        except OSError:
            continue
        for name in filter(is_cuda_library, names):
            if name not in taken:
                taken.add(name)
                path = os.path.join(os.path.abspath(folder or "."), name)
                libraries += [] if is_within(os.path.realpath(path), roots) else [path]
    return libraries


@check("static.library_path", torch=False)
def static_library_path(ctx: Context) -> Outcome:
    """No other CUDA or cuDNN comes before the environment's own."""
    searched = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if os.environ.get(name)}
    # An environment for CPUs has none that another could come before.
    libraries = first_on_path(searched, own_roots()) if ctx.target.get("cuda") else []
    if libraries:
        reason = f"{some(libraries, 3)} would be loaded before the environment's own"
        remedy = "unset LD_LIBRARY_PATH and LD_PRELOAD, or unload the cluster's CUDA and cuDNN modules"
        return failed(reason, remedy, details={"found": libraries[:100], **searched})
    return passed(details=dict(searched))
