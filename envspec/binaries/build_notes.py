"""What torch's neighbours write into their wheels about what they were built for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel
from envspec.documents import Unreadable, read_json

_GRAPHBOLT = r".*/libgraphbolt_pytorch_(\d{1,3}\.\d{1,3}\.\d{1,3})\.so"


@dataclass(frozen=True)
class BuildNotes:
    """cuda    the CUDA that a wheel was built for ("12.8"), None where it doesn't say
    torch   the torch releases that it has libraries for, oldest first; empty where it doesn't say
    member  the file that says it
    """

    cuda: str | None = None
    torch: tuple[str, ...] = ()
    member: str | None = None


def build_notes(wheel: OpenWheel) -> BuildNotes:
    """Read xformers' cpp_lib.json, onnxruntime's build_and_package_info.py and the names of dgl's libraries. Raises
    UnreadableWheel."""
    budget = Budget(1 << 20, 1 << 20)
    for info in wheel.find(r"[^/]+/cpp_lib\.json"):
        cuda = _cuda_of_xformers(_text(wheel, info.filename, budget))
        if cuda:
            return BuildNotes(cuda, member=info.filename)
    for info in wheel.find(r"[^/]+/capi/build_and_package_info\.py"):
        match = re.search(r"""^cuda_version = ['"](\d{1,2}\.\d{1,2})""", _text(wheel, info.filename, budget), re.M)
        if match:
            return BuildNotes(match[1], member=info.filename)
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
