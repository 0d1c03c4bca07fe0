"""NVIDIA's cuda-compat in images: forward compatibility, with which a newer CUDA runs on an older driver.

NVIDIA's own base images hold it at /usr/local/cuda-X.Y/compat. At /usr/local/cuda/compat, NVIDIA's container toolkit
puts it before the machine's libcuda where the driver is older, and nowhere else (libnvidia-container; the hook
enable-cuda-compat of nvidia-ctk). Apptainer does nothing of this, so its definition does.
"""

from __future__ import annotations

from collections.abc import Iterator

from envspec.export.plan import Borrowed, ImageReference
from envspec.facts import toolkits
from envspec.facts.toolkits import toolkit
from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec

FOLDER = "/usr/local/cuda/compat"
NAME = "cuda-compat"


def is_wanted(spec: Spec, target: LockedTarget) -> bool:
    """Return whether the spec asks for it in a target."""
    return any(candidate.cuda_compat for candidate in spec.targets if candidate.name == target.name) and bool(
        target.inputs.cuda
    )


def note_of_lack(spec: Spec, target: LockedTarget, what: str) -> str | None:
    """Warn that an environment outside the recipes' images doesn't bring a target's cuda-compat, and name what does.
    None where the spec doesn't ask for it, and where the target has conda-forge's package."""
    if not is_wanted(spec, target) or any((pin.kind, pin.name) == ("conda", NAME) for pin in target.pins):
        return None
    floor = (
        f"driver {target.driver_floor} or newer" if target.driver_floor else f"a driver of CUDA {target.inputs.cuda}"
    )
    return (
        f"{what} of {target.name} doesn't bring cuda-compat, which the target asks for, and so needs {floor}: the"
        " images of the Dockerfile and the Apptainer definition bring it, and conda-forge's"
        f" `{NAME}` in [conda] does the same"
    )


def borrow(cuda: str, image: ImageReference) -> Borrowed:
    """Give what an image takes from NVIDIA's base image of a CUDA version."""
    return Borrowed(NAME, image, ((f"/usr/local/cuda-{cuda}/compat", FOLDER),))


def branches(spec: Spec, target: LockedTarget) -> tuple[int, ...] | None:
    """List the older driver branches that a target's images run on by it: none where the spec doesn't ask for it. None
    where the tables don't know them."""
    cuda, floor = target.inputs.cuda, target.driver_floor
    if cuda is None or not is_wanted(spec, target):
        return ()
    release = toolkit(cuda)
    if release is None or not release.forward_branches:
        return None
    return tuple(branch for branch in release.forward_branches if not floor or branch < toolkits.branch(floor))


def choice(floor: str | None) -> Iterator[str]:
    """Write the lines of a shell that puts cuda-compat before the machine's libcuda where the driver is older."""
    if floor is None:
        return
    yield "# the machine's libcuda, which --nv binds, is of its driver: an older one than this gets the image's"
    yield "_driver=$(sed -n 's/.*Kernel Module[^0-9]*\\([0-9]*\\)\\..*/\\1/p' /proc/driver/nvidia/version 2>/dev/null)"
    yield f'if [ "${{_driver:-{toolkits.branch(floor)}}}" -lt {toolkits.branch(floor)} ]; then'
    yield f'    export LD_LIBRARY_PATH="{FOLDER}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
    yield "fi"
    yield "unset _driver"
