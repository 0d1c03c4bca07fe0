"""The CUDA of the compilers in a triton wheel, from a bounded part of it."""

from __future__ import annotations

import re
from zipfile import ZipInfo

from envspec.binaries.wheel import OpenWheel

PACKED, UNPACKED = 48 << 20, 192 << 20
"""Bytes of a compiler that are read at most. 17 MB and 52 MB in triton 3.9.0."""

_MEMBER = r"triton/.*/bin/(?:ptxas|ptxas-blackwell)"
_RELEASE = re.compile(rb"release ([1-9]\d\.\d), V\1\.\d+")


def ptxas_of(wheel: OpenWheel) -> dict[str, str]:
    """Find the CUDA release of `ptxas` and of `ptxas-blackwell`, as far as a wheel has them and they name it. Raises
    UnreadableWheel, and what its file raises."""
    found = {info.filename.rpartition("/")[2]: _release(wheel, info) for info in wheel.find(_MEMBER)}
    return {name: release for name, release in found.items() if release is not None}


def _release(wheel: OpenWheel, info: ZipInfo) -> str | None:
    before, unpacked = b"", 0
    with wheel.open(info) as stream:
        while unpacked < UNPACKED and wheel.passed(info) < PACKED and (chunk := stream.read(1 << 20)):
            if match := _RELEASE.search(before + chunk):
                return match[1].decode()
            unpacked += len(chunk)
            before = chunk[-64:]
    return None
