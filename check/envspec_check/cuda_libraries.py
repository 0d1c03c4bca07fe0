"""The files that are CUDA's libraries."""

from __future__ import annotations

import fnmatch
import os
import re

CUDA_LIBRARIES = (
    "libcudart", "libcublas", "libcublasLt", "libcudnn*", "libcufft*", "libcufile*", "libcupti", "libcurand",
    "libcusolver*", "libcusparse*", "libnccl", "libnvJitLink", "libnvrtc*", "libnvshmem*",
)  # fmt: skip
"""What an environment brings itself. The driver's own (libcuda, libnvidia-*) are the machine's."""


def is_cuda_library(path: str) -> bool:
    name, extension, _ = os.path.basename(path).partition(".so")
    # wheels may carry a hash in the name: libcudart-d0da41ae.so.11.0
    stem = re.sub(r"-[0-9a-f]{8}$", "", name)
    return bool(extension) and any(fnmatch.fnmatchcase(stem, pattern) for pattern in CUDA_LIBRARIES)


def mapped_libraries(maps: str) -> list[str]:
    """Return the CUDA libraries in a /proc/PID/maps."""
    paths = {line.split(None, 5)[5] for line in maps.splitlines() if len(line.split(None, 5)) == 6}
    return sorted(path for path in paths if is_cuda_library(path.replace(" (deleted)", "")))
