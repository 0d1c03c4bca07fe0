"""The code that runs on a GPU's compute capability."""

from __future__ import annotations

import re
from typing import Optional, Sequence


def capability_of(flag: str) -> tuple[int, int]:
    """Return the capability of an architecture: sm_90 and compute_90a are (9, 0), sm_101 is 11.0's older name."""
    major, minor = divmod(flag_number(flag), 10)
    return (11, 0) if (major, minor) == (10, 1) else (major, minor)


def flag_number(flag: str) -> int:
    return int(re.sub(r"\D", "", flag) or 0)


def covers(flags: Sequence[str], architecture: str, cuda: Optional[str] = None) -> bool:
    """Return whether code that this CUDA compiled for `flags` runs on an architecture. The rule and its sources are in
    envspec/facts/compute_capability.py; a test holds both equal."""
    own = capability_of(architecture)
    for flag in flags:
        code = capability_of(flag)
        family = code[0] == own[0] and code <= own
        integrated = {(5, 3), (6, 2), (7, 2), (8, 7), (11, 0)} & {code, own}
        if code == own:
            fits = True
        elif flag.endswith("a"):
            fits = False
        elif flag.endswith("f"):
            fits = family
        elif flag.startswith("compute_"):
            fits = flag_number(flag) <= flag_number(architecture)
        elif integrated:
            unified = int((cuda or "0").split(".")[0]) >= 13
            fits = unified and (code, own) in (((7, 0), (7, 2)), ((8, 0), (8, 7)), ((8, 6), (8, 7)))
        else:
            fits = family
        if fits:
            return True
    return False
