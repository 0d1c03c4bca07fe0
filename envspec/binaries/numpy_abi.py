"""The NumPy that a wheel's extension modules were compiled against.

NumPy's headers leave their words in whatever calls `import_array`. Those of NumPy 1 say "module compiled against API
version" where the versions differ; those of NumPy 2 look for `numpy._core._multiarray_umath` first, and word it
otherwise. (Read in generate_numpy_api.py of numpy/core, an early revision of 1.x, and of numpy/_core, one of 2.x. Some
40 wheels on PyPI, built with either, hold the words accordingly.) What only names `numpy.core` says nothing: pybind11
and the numpy crate look it up as they run, and Cython's `cimport numpy` names it in passing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from zipfile import ZipInfo

from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel
from envspec.binaries.window import Window

_NUMPY_1 = b"module compiled against API version"
_NUMPY_2 = b"numpy._core._multiarray_umath"

_EXTENSION = re.compile(r"\.(?:so|pyd)(?:\.\d+)*$")
_ASIDE = re.compile(r"(?:^|/)(?:[^/]*\.libs|tests?|_tests?|testing)/")

PACKED, UNPACKED = 32 << 20, 512 << 20
"""Bytes of a wheel that are read at most, packed and unpacked. OpenCV's one module takes 23 MB."""

_SECOND = 2 << 20
"""Packed bytes of modules that are read to confirm what the first one said."""


@dataclass(frozen=True)
class NumpyAbi:
    """built_for  1 or 2; None where no extension module says it
    member     the one that does
    complete   False where not all modules could be read within the bounds
    """

    built_for: Literal[1, 2] | None = None
    member: str | None = None
    complete: bool = True


def numpy_abi(wheel: OpenWheel) -> NumpyAbi:
    """Find out for which NumPy a wheel's extension modules were compiled, the smallest ones first.

    NumPy 2 wherever one of those read says so: such a wheel works with both. Raises UnreadableWheel.
    """
    modules = sorted(
        (info for info in wheel.members if _EXTENSION.search(info.filename) and not _ASIDE.search(info.filename)),
        key=lambda info: (info.compress_size, info.filename),
    )
    budget, first = Budget(PACKED, UNPACKED), NumpyAbi()
    for info in modules:
        if first.built_for and info.compress_size > budget.packed:
            return first
        try:
            said = _of(wheel, info, budget)
        except BudgetSpent:
            return first if first.built_for else NumpyAbi(complete=False)
        if said == 2 or (said == 1 and first.built_for):
            return NumpyAbi(said, info.filename)
        if said == 1:
            first = NumpyAbi(1, info.filename)
            budget = Budget(min(_SECOND, budget.packed), budget.unpacked)
    return first


def _of(wheel: OpenWheel, info: ZipInfo, budget: Budget) -> Literal[1, 2] | None:
    budget.take(info.compress_size)
    with wheel.open(info) as stream:
        window = Window(stream, can_seek=False, passed=lambda size: budget.take(0, size))
        found = window.search((_NUMPY_1, _NUMPY_2))
    return {_NUMPY_1: 1, _NUMPY_2: 2, None: None}[found]
