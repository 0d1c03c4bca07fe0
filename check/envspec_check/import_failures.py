"""Errors of an import: their meaning, and the remedy."""

from __future__ import annotations

import re
from typing import Optional

KNOWN = (
    (
        r"compiled using NumPy 1\.x|numpy\.core\.multiarray failed|_ARRAY_API not found|Numpy is not available",
        "it was compiled for another major version of NumPy: bound numpy in the spec (numpy<2), and lock again",
    ),
    (r"numpy\.dtype size changed", "it was compiled for an older NumPy: lock a newer release of it"),
    (
        r"version `(?P<what>GLIBC_[\d.]+)' not found",
        "its wheel needs a newer system ({what}): set the target's glibc to this machine's, and lock again",
    ),
    (
        r"version `(?P<what>(?:GLIBCXX|CXXABI|GOMP|OMP)_[\d.]+)' not found",
        "an older C++ or OpenMP library is loaded than it needs ({what}): unset LD_LIBRARY_PATH and LD_PRELOAD",
    ),
    (
        r"(?P<what>lib(?:cudart|cublas|cudnn|cufft|cusparse|cusolver|nvrtc|nccl|curand)[\w-]*\.so[.\d]*): cannot",
        "its wheel is for another CUDA than the target's ({what}): lock the build for the target's CUDA",
    ),
    (
        r"(?P<what>lib(?:c10|torch)_(?:cuda|hip|xpu)\S*\.so): cannot",
        "it was compiled for a torch with GPUs, and this one has none: lock both from one index",
    ),
    (
        r"(?P<what>libcuda\.so[.\d]*): cannot open",
        "NVIDIA's driver isn't passed in (--gpus all, --nv, the scheduler's); it can't be imported without",
    ),
    (
        r"(?P<what>lib(?:GL|EGL|gthread|glib|SM|Xext|Xrender|X11|xcb)[\w.+-]*): cannot open",
        "apt = [\"libgl1\", \"libglib2.0-0\"] in the spec's [image], or a headless build of the package",
    ),
    (
        r"(?P<what>lib[\w.+-]+\.so[.\d]*): cannot open",
        "install the package that has {what}, as an apt package of the spec's [image] or by conda",
    ),
    (
        r"undefined symbol: \S*(?:c10|torch|at\d|aten)",
        "it was compiled against another torch: lock the build for this torch, or build it from source",
    ),
    (
        r"undefined symbol: \S*(?:__cxa|__gxx|_Z\w*St|.*GLIBCXX|.*CXXABI)",
        "another C++ library is loaded than it needs: unset LD_LIBRARY_PATH and LD_PRELOAD",
    ),
    (r"undefined symbol", "its libraries don't fit those of the environment: install it again from the lock"),
    (r"operator \S+ does not exist", "its library wasn't loaded: it was compiled against another torch or CUDA"),
    (r"CUDA_HOME|MissingCUDAException", "it needs CUDA's compiler to be imported: nvcc = true in the spec's [image]"),
    (
        r"No module named 'pkg_resources",
        "newer setuptools have no pkg_resources: bound it (setuptools<81), and lock again",
    ),
    (r"No module named '(?P<what>[\w.]+)'", "add what brings {what} to the spec's dependencies, and lock again"),
    (r"cannot import name", "two locked packages don't fit each other: bound the one that it names, and lock again"),
)  # fmt: skip
"""Patterns for the text of an error, and what to do."""


def import_remedy(text: str) -> Optional[str]:
    """Give the remedy of an import that failed with this text; None where none is known."""
    for pattern, remedy in KNOWN:
        match = re.search(pattern, text)
        if match:
            return remedy.format(**match.groupdict())
    return None
