"""What runs on a GPU's compute capability."""

from __future__ import annotations

import re
from typing import Sequence


def capability_of(flag: str) -> tuple[int, int]:
    """The capability of an architecture: sm_90 and compute_90a are (9, 0), sm_120 is (12, 0)."""
    digits = re.sub(r"\D", "", flag) or "00"
    return int(digits[:-1] or 0), int(digits[-1])


def covers(flags: Sequence[str], architecture: str) -> bool:
    """Whether code compiled for `flags` runs on an architecture: machine code of its major version and no higher minor,
    or PTX that isn't newer. Code for sm_90a runs on 9.0 alone, for sm_100f on its major version."""
    own = capability_of(architecture)
    for flag in flags:
        code = capability_of(flag)
        if flag.endswith("a"):
            fits = code == own
        elif flag.startswith("compute_") and not flag.endswith("f"):
            fits = code <= own
        else:
            fits = code[0] == own[0] and code <= own
        if fits:
            return True
    return False
