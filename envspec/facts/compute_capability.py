"""Compute capabilities: how they are written, their order, and the one rule of which code runs on which GPU.

A GPU has a compute capability (9.0). Compiled code names the one it was made for: `sm_90` is machine code (SASS),
`compute_90` is PTX, which the driver compiles when it loads it.

What runs on what, and where that is written:

SASS    on its own major version from its own minor version on (CUDA C++ Programming Guide, "Binary Compatibility").
        Between the integrated GPUs of `INTEGRATED` (Jetson, DRIVE) and all others it isn't compatible, either way, but
        for what `FROM_13` names: CUDA 13.2 made the libraries of Arm servers (SBSA) run on Jetson (PyTorch,
        torch/cuda/__init__.py of 2.15.0, DEVICE_REQUIREMENT and DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION;
        pytorch/pytorch#186285). PyTorch asks for code that 13.2 compiled, but the driver decides: Orin's first one for
        CUDA 13 is JetPack 7.2's, of 13.2, and runs what 13.0 compiled (nvidia-holoscan/holohub#1687: 2.11.0+cu130).
        CUDA 13.0 renamed 10.1 to 11.0: one capability, two names.
PTX     on every capability that isn't older (CUDA C++ Programming Guide, "PTX Compatibility").
sm_90a  architecture-specific code, SASS or PTX: on exactly its own capability.
sm_100f family-specific code, SASS or PTX: on its own major version from its own minor version on, 10.1 being of 11.0's
        family (CUDA C++ Programming Guide, "Family-Specific Features"; PTX ISA, `.target`).

What travels without envspec has twins of this: `covers` of the smoke check and `runs` of the preflight.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from msgspec import Struct

INTEGRATED = frozenset({53, 62, 72, 87, 110})
"""GPUs that share a chip with the CPU, ten times their capability: Tegra X1, X2, Xavier, Orin, Thor."""

FROM_13 = frozenset({(70, 72), (80, 87), (86, 87)})
"""Capability that code was compiled for -> capability it also runs on, if CUDA 13 or newer compiled it."""

_RENAMED = {101: 110}


class Architecture(Struct, frozen=True, order=True):
    """An architecture: `number` is ten times the compute capability (90 is 9.0, 103 is 10.3).

    `feature` is "a" for architecture-specific code (`sm_90a`: 9.0 and nothing else), "f" for family-specific code
    (`sm_100f`: 10.0 and later minors), else "".
    """

    number: int
    feature: str = ""

    @property
    def major(self) -> int:
        return self.number // 10

    @property
    def capability(self) -> str:
        """The capability without the feature: "9.0"."""
        return f"{self.major}.{self.number % 10}"

    @property
    def sm(self) -> str:
        """The name of its machine code: "sm_90" or "sm_90a"."""
        return f"sm_{self}"

    def __str__(self) -> str:
        return f"{self.number}{self.feature}"


@cache
def parse(text: str) -> Architecture | None:
    """Read an architecture or a capability: `sm_90`, `compute_90`, `sm90`, `90` or `9.0`, in either case.

    The feature (`a` or `f`) may follow. None for anything else, such as a product's name.
    """
    name = text.lower() if text.isascii() else ""
    feature = name[-1] if name.endswith(("a", "f")) else ""
    name = name.removesuffix(feature)
    major, dot, minor = name.partition(".")
    if dot:
        number, long = major + minor, len(minor) == 1 and len(major) in (1, 2)
    else:
        prefix = "sm" if name.startswith("sm") else "compute"
        number = name.removeprefix(prefix).removeprefix("_") if name.startswith(prefix) else name
        long = len(number) in (2, 3)
    if not long or not number.isdecimal() or number.startswith("0"):
        return None
    return Architecture(int(number), feature)


def read_capability(text: str) -> Architecture:
    """Read an architecture or a capability as `parse` does. Raises ValueError where `parse` gives None."""
    architecture = parse(text)
    if architecture is None:
        raise ValueError(f"{text!r} isn't a compute capability")
    return architecture


def sm_of(capability: str) -> str:
    """Turn "9.0" into "sm_90". Raises ValueError for a text that isn't a capability."""
    return read_capability(capability).sm


def capability_of(sm: str) -> str:
    """Turn "sm_90" (or "sm_90a") into "9.0". Raises ValueError for a text that isn't an architecture."""
    return read_capability(sm).capability


def order(capability: str) -> tuple[int, int]:
    """Make a sort key of a capability: "10.0" after "9.0". Raises ValueError for a text that isn't a capability."""
    return divmod(read_capability(capability).number, 10)


KINDS_OF_CODE = ("cuda", "sm", "compute")
"""The kinds of texts that a lock says a wheel's code with: what compiled it, machine code, PTX."""
REST_UNREAD = "rest-unread"
"""The word for code that was read in part."""


def is_integrated(capability: str) -> bool:
    """Return whether GPUs of a capability share a chip with the CPU (Jetson, DRIVE). Raises ValueError for other
    texts."""
    return _now(read_capability(capability).number) in INTEGRATED


def sass_runs(built: Architecture, gpu: Architecture, cuda: str | None) -> bool:
    """Return whether machine code runs on a GPU.

    `cuda` is the version that compiled it ("12.8"), None if unknown: then the rule from before CUDA 13 holds.
    """
    code, own = _now(built.number), _now(gpu.number)
    if code == own:
        return True
    if built.feature == "a" or code > own or code // 10 != own // 10:
        return False
    if built.feature == "f" or not INTEGRATED & {code, own}:
        return True
    return cuda is not None and (code, own) in FROM_13 and int(cuda.partition(".")[0]) >= 13


def ptx_runs(built: Architecture, gpu: Architecture) -> bool:
    """Return whether a driver that is as new as the PTX can compile it for a GPU on loading."""
    code, own = _now(built.number), _now(gpu.number)
    if built.feature == "a":
        return code == own
    if built.feature == "f":
        return code <= own and code // 10 == own // 10
    return code == own or built.number <= gpu.number


def covers(compiled: Iterable[str], capability: str, cuda: str | None) -> bool:
    """Return whether machine code for one of these, compiled by this CUDA, runs on this capability.

    Raises ValueError for a text that isn't a capability.
    """
    own = read_capability(capability)
    return any(sass_runs(read_capability(compiled_capability), own, cuda) for compiled_capability in compiled)


def can_translate(ptx: Iterable[str], capability: str) -> bool:
    """Return whether the driver can compile PTX for one of these for this capability on loading.

    Raises ValueError for a text that isn't a capability.
    """
    own = read_capability(capability)
    return any(ptx_runs(read_capability(ptx_capability), own) for ptx_capability in ptx)


def _now(number: int) -> int:
    return _RENAMED.get(number, number)
