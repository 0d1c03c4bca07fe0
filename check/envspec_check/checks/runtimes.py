"""static.runtimes: the C++ and OpenMP libraries that are loaded first are no older than those they hide."""

from __future__ import annotations

import os
import re
import sys
from subprocess import DEVNULL
from typing import Dict, Mapping, Optional, Sequence, Tuple

from envspec_check.environment import is_within, own_paths, own_roots
from envspec_check.interface import Context, Fault, Outcome, check, failed, passed, run_program

VERSIONS: Dict[str, bytes] = {
    "libstdc++.so.6": rb"GLIBCXX_(3\.4(?:\.\d+)?)\0",
    "libgcc_s.so.1": rb"GCC_(\d+(?:\.\d+)*)\0",
    "libgomp.so.1": rb"GOMP_(\d+\.\d+(?:\.\d+)*)\0",
}
"""The names of the versions of symbols that each library has: a newer library has all of an older one."""

Version = Tuple[int, ...]


def newest(path: str) -> Optional[Version]:
    """Return the newest version of symbols that a library has; none where it's no such library, None where it isn't
    there."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return None
    versions = re.findall(VERSIONS[wanted_name(path)], text)
    return max((tuple(map(int, version.split(b"."))) for version in versions), default=())


def wanted_name(path: str) -> str:
    name = os.path.basename(path)
    return next(library for library in VERSIONS if name == library or name.startswith(library + "."))


def is_runtime(path: str) -> bool:
    name = os.path.basename(path)
    return any(name == library or name.startswith(library + ".") for library in VERSIONS)


def named_first(environ: Mapping[str, str]) -> Dict[str, Tuple[str, str]]:
    """Return the runtime libraries that LD_PRELOAD or LD_LIBRARY_PATH bring, by name: where they are, and by which of
    both."""
    brought: Dict[str, Tuple[str, str]] = {}
    for path in re.split("[ :]+", environ.get("LD_PRELOAD", "")):
        if is_runtime(path):
            brought.setdefault(wanted_name(path), (path, "LD_PRELOAD"))
    for folder in filter(None, re.split("[:;]", environ.get("LD_LIBRARY_PATH", ""))):
        for name in VERSIONS:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                brought.setdefault(name, (path, "LD_LIBRARY_PATH"))
    return brought


def usual(name: str, roots: Sequence[str], cache: str) -> Optional[str]:
    """Find where a library would come from otherwise: the environment, torch's own folder, or the system, by what
    `ldconfig -p` says."""
    folders = [os.path.join(sys.prefix, "lib"), *(os.path.join(root, "torch/lib") for root in roots)]
    listed = re.findall(r"^\s*%s \(.*x86-64.*\) => (\S+)|^\s*%s \(.*AArch64.*\) => (\S+)" % ((re.escape(name),) * 2), cache, re.MULTILINE)  # fmt: skip  # noqa: E501
    own = [os.path.join(folder, name) for folder in folders]
    return next((path for path in [*own, *(x86 or arm for x86, arm in listed)] if os.path.exists(path)), None)


def libraries_of_the_system() -> str:
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"):
        try:
            clean = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
            return run_program([program, "-p"], clean, "/", None, Fault(""), stderr=DEVNULL).output
        except OSError:
            continue
    return ""


def version_text(version: Version) -> str:
    return ".".join(map(str, version))


@check("static.runtimes", torch=False)
def static_runtimes(ctx: Context) -> Outcome:
    """No older libstdc++, libgcc or libgomp comes before the one that the environment would have."""
    first = {
        name: place for name, place in named_first(os.environ).items()
        if not is_within(os.path.realpath(place[0]), own_roots())
    }  # fmt: skip
    cache, wrong, details = libraries_of_the_system() if first else "", [], {}
    for name, (path, variable) in first.items():
        other = usual(name, own_paths(), cache)
        own, hidden = newest(path), newest(other) if other else None
        details[name] = {"first": path, "hides": other}
        if own is not None and not own:
            wrong.append(f"{variable} brings {path}, which is no {name.partition('.so')[0]}")
        elif own and hidden and own < hidden:
            reason = f"{variable} brings {path}, which is older ({version_text(own)}) than what it hides"
            wrong.append(f"{reason}: {other} ({version_text(hidden)})")
    if wrong:
        remedy = "unset LD_LIBRARY_PATH and LD_PRELOAD, or unload the cluster's compiler modules (gcc, intel)"
        return failed("; ".join(wrong), remedy, details=details)
    return passed(details=details)
