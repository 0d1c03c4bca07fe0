"""Bounds that a wheel's own files give and its METADATA leaves out: each question, and the bound that follows from it.

Nothing else is ever read from a wheel, so a lock that says more wasn't made by reading.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from envspec.facts.cuda_stack import stack_of
from envspec.packages.names import requirement_name

NO_PKG_RESOURCES = 82
"""The first major of setuptools without pkg_resources: 81.0.0 has it, 82.0.0 (2026-02-08) doesn't (wheels on PyPI)."""

_FOR_NEW_PYTHONS = re.compile(r"(?:cp3(?:1[3-9]|[2-9]\d)t?\.?)+")
"""NumPy has no wheels of 1.x for Python 3.13 and later, so nothing for them was compiled against it."""


class WheelBound(Struct, frozen=True):
    """A question to a wheel, and what its package needs if the answer is yes.

    question    "numpy": is it compiled for NumPy 1? "pkg_resources": does it import that as it is imported?
    constraint  PEP 508
    kind        "constraint" bounds a package that is there anyway, "requirement" asks for it as well
    """

    question: Literal["numpy", "pkg_resources"]
    constraint: str
    kind: Literal["constraint", "requirement"]

    def could_say(self, name: str, file: str, dependencies: Iterable[str]) -> bool:
        """Return whether reading a file may give this bound, by its name and its package's requirements."""
        # torch and its companions may lie on an index that nobody has to reach; the tables know them
        if not file.endswith(".whl") or file.count("-") < 4 or stack_of(name) is not None:
            return False
        if self.question == "pkg_resources":
            return name != "setuptools"
        python, platform = (file.removesuffix(".whl").split("-")[place] for place in (-3, -1))
        if name == "numpy" or platform == "any" or _FOR_NEW_PYTHONS.fullmatch(python):
            return False
        return any(requirement_name(line) == "numpy" for line in dependencies)


NUMPY_1 = WheelBound("numpy", "numpy<2", "constraint")
PKG_RESOURCES = WheelBound("pkg_resources", f"setuptools<{NO_PKG_RESOURCES}", "requirement")

WHEEL_BOUNDS = {bound.constraint: bound for bound in (NUMPY_1, PKG_RESOURCES)}
"""All of them, by the constraint."""
