"""The notes of torch's neighbours, in their wheels, on the torch and CUDA that they were built for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envspec.base.documents import Unreadable, read_json
from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel

_CUDA_IN = {
    r"torch/version\.py": r"""^cuda\b[^=\n]{0,40}= ['"](\d{1,2}\.\d{1,2})""",
    r"[^/]+/capi/build_and_package_info\.py": r"""^cuda_version = ['"](\d{1,2}\.\d{1,2})""",
    r"tensorflow/python/platform/build_info\.py": r"""['"]cuda_version['"][:,] ['"](\d{1,2}\.\d{1,2})""",
}
"""Members that torch, onnxruntime and tensorflow write as they are built, and how each writes its CUDA."""

_DEEPSPEED = r"deepspeed/git_version_info_installed\.py"
"""What deepspeed writes as its operators are compiled ahead."""

_GRAPHBOLT = r".*/libgraphbolt_pytorch_(\d{1,3}\.\d{1,3}\.\d{1,3})\.so"


@dataclass(frozen=True)
class BuildNotes:
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
        torch, its_cuda = (re.search(rf"'{key}': '(\d+\.\d+)'", text) for key in ("version", "cuda_version"))
        # 0.0 is what it writes where nothing was compiled
        if torch and its_cuda and "0.0" not in (torch[1], its_cuda[1]):
            return BuildNotes(its_cuda[1], (torch[1],), info.filename)
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
