"""Notes in wheels on their builds: the torch and CUDA that torch's neighbours were built for, and the NumPy."""

from __future__ import annotations

import re
from typing import Literal
from zipfile import ZipInfo

from msgspec import Struct

from envspec.base.documents import Unreadable, read_json
from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel
from envspec.binaries.window import Window

_CUDA_IN = {
    r"torch/version\.py": r"""^cuda\b[^=\n]{0,40}= ['"](\d{1,2}\.\d{1,2})""",
    r"[^/]+/capi/build_and_package_info\.py": r"""^cuda_version = ['"](\d{1,2}\.\d{1,2})""",
    r"tensorflow/python/platform/build_info\.py": r"""['"]cuda_version['"][:,] ['"](\d{1,2}\.\d{1,2})""",
}
"""Members that torch, onnxruntime and tensorflow write as they are built, and how each writes its CUDA."""

_DEEPSPEED = r"deepspeed/git_version_info_installed\.py"
"""The text that deepspeed writes as its operators are compiled ahead."""

_GRAPHBOLT = r".*/libgraphbolt_pytorch_(\d{1,3}\.\d{1,3}\.\d{1,3})\.so"


class BuildNotes(Struct, frozen=True):
    """cuda    the CUDA that a wheel was built for ("12.8"), None where it doesn't say
    torch   the torch releases that it has libraries for, oldest first, with or without the patch; empty where it
            doesn't say
    member  the file that says it
    """

    cuda: str | None = None
    torch: tuple[str, ...] = ()
    member: str | None = None


def build_notes(wheel: OpenWheel) -> BuildNotes:
    """Read xformers' cpp_lib.json, what torch, onnxruntime, tensorflow and deepspeed write for themselves, and the
    names of dgl's libraries. Raises UnreadableWheel."""
    budget = Budget(1 << 20, 1 << 20)
    for info in wheel.find(r"[^/]+/cpp_lib\.json"):
        cuda = _cuda_of_xformers(_text(wheel, info.filename, budget))
        if cuda:
            return BuildNotes(cuda, member=info.filename)
    for member, line in _CUDA_IN.items():
        for info in wheel.find(member):
            match = re.search(line, _text(wheel, info.filename, budget), re.M)
            if match:
                return BuildNotes(match[1], member=info.filename)
    for info in wheel.find(_DEEPSPEED):
        text = _text(wheel, info.filename, budget)
        torch_match, cuda_match = (re.search(rf"'{key}': '(\d+\.\d+)'", text) for key in ("version", "cuda_version"))
        # 0.0 is what it writes where nothing was compiled
        if torch_match and cuda_match and "0.0" not in (torch_match[1], cuda_match[1]):
            return BuildNotes(cuda_match[1], (torch_match[1],), info.filename)
    libraries = {match[1]: name for info in wheel.members if (match := re.fullmatch(_GRAPHBOLT, name := info.filename))}
    releases = sorted(libraries, key=lambda release: tuple(map(int, release.split("."))))
    return BuildNotes(torch=tuple(releases), member=libraries[releases[-1]]) if releases else BuildNotes()


def _text(wheel: OpenWheel, name: str, budget: Budget) -> str:
    info = next(info for info in wheel.members if info.filename == name)
    try:
        return wheel.read(info, budget).decode("utf-8", "replace")
    except BudgetSpent:
        return ""


def _cuda_of_xformers(text: str) -> str | None:
    """`12.8` of `{"version": {"cuda": 1208, …}}`."""
    try:
        cuda = read_json(text)["version"]["cuda"]
    except (Unreadable, TypeError, KeyError):
        return None
    return f"{cuda // 100}.{cuda % 100}" if type(cuda) is int and 1000 <= cuda < 5000 else None


# The NumPy that a wheel's extension modules were compiled against.
#
# NumPy's headers leave their words in whatever calls `import_array`. Those of NumPy 1 say "module compiled against
# API version" where the versions differ; those of NumPy 2 look for `numpy._core._multiarray_umath` first, and word it
# otherwise. (Read in generate_numpy_api.py of numpy/core, an early revision of 1.x, and of numpy/_core, one of 2.x.
# Some 40 wheels on PyPI, built with either, hold the words accordingly.) What only names `numpy.core` says nothing:
# pybind11 and the numpy crate look it up as they run, and Cython's `cimport numpy` names it in passing.

_NUMPY_1 = b"module compiled against API version"
_NUMPY_2 = b"numpy._core._multiarray_umath"

_EXTENSION = re.compile(r"\.(?:so|pyd)(?:\.\d+)*$")
_ASIDE = re.compile(r"(?:^|/)(?:[^/]*\.libs|tests?|_tests?|testing)/")

PACKED, UNPACKED = 32 << 20, 512 << 20
"""Bytes of a wheel that are read at most, packed and unpacked. OpenCV's one module takes 23 MB."""

_SECOND = 2 << 20
"""Packed bytes of modules that are read to confirm what the first one said."""


class NumpyAbi(Struct, frozen=True):
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
            major = _of(wheel, info, budget)
        except BudgetSpent:
            return first if first.built_for else NumpyAbi(complete=False)
        if major == 2 or (major == 1 and first.built_for):
            return NumpyAbi(major, info.filename)
        if major == 1:
            first = NumpyAbi(1, info.filename)
            budget = Budget(min(_SECOND, budget.packed), budget.unpacked)
    return first


def _of(wheel: OpenWheel, info: ZipInfo, budget: Budget) -> Literal[1, 2] | None:
    budget.take(info.compress_size)
    with wheel.open(info) as stream:
        window = Window(stream, can_seek=False, passed=lambda size: budget.take(0, size))
        marker = window.search((_NUMPY_1, _NUMPY_2))
    return {_NUMPY_1: 1, _NUMPY_2: 2, None: None}[marker]
