"""CUDA's compiler and headers in images, for what compiles kernels when it runs: DeepSpeed's ops, torch's extensions.

NVIDIA's -devel images hold the toolkit at /usr/local/cuda-X.Y. Of its 5 GB, an image takes the programs, the headers
and the runtime that extensions are linked with: the other libraries are the wheels'.
"""

from __future__ import annotations

from envspec.export.plan import Borrowed, ImageReference, Plan
from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec

FOLDER = "/usr/local/cuda"
NAME = "nvcc"
_FOLDERS = {"linux-64": "x86_64-linux", "linux-aarch64": "sbsa-linux"}
"""Platform -> the toolkit's folder of it. Source: NVIDIA's installation guide for Linux."""


def is_wanted(spec: Spec, target: LockedTarget) -> bool:
    """Return whether the spec asks for it in a target's image."""
    return spec.image.nvcc and target.inputs.cuda is not None


def folders(plan: Plan) -> tuple[str, ...]:
    """List the toolkit's folders that a target's image links names to: one or none."""
    return tuple(
        dict.fromkeys(target.rpartition("/")[0] for source in plan.image.toolkit for _, target in source.links)
    )


def variables(spec: Spec) -> dict[str, str]:
    """Give the variables by which builds find it."""
    return {"CUDA_HOME": FOLDER} if spec.image.nvcc else {}


def borrow(cuda: str, platform: str, image: ImageReference) -> Borrowed:
    """Give what an image takes from NVIDIA's -devel image of a CUDA version."""
    toolkit, of = f"{FOLDER}-{cuda}", f"targets/{_FOLDERS[platform]}"
    paths = {"bin": "bin", "nvvm": "nvvm", f"{of}/include": f"{of}/include", f"{of}/lib/libcuda*": f"{of}/lib/"}
    copies = tuple((f"{toolkit}/{path}", f"{FOLDER}/{here}") for path, here in paths.items())
    # the names by which builds look for the headers and the runtime
    names = {"include": "include", "lib64": "lib"}
    return Borrowed(
        NAME, image, copies, tuple((f"{FOLDER}/{name}", f"{of}/{folder}") for name, folder in names.items())
    )
