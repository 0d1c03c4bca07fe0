"""The wheels of a target that hold compilers, and the compilers' paths in them.

Where they lie was read from the wheels of triton 2.1 to 3.9, of NVRTC and nvJitLink for CUDA 11.8 to 13.0, and of the
torch builds that bring an NVRTC of their own (those for CUDA 11.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from envspec.facts.triton import FIRST_OF_ITS_OWN
from envspec.lock.model import LockedTarget, Pin
from envspec.packages.version_numbers import numbers
from envspec.prove.compiles.model import Compiler, CompilerName

_PACKAGES: dict[CompilerName, str] = {
    "ptxas": r"triton|pytorch-triton",
    "nvrtc": r"nvidia-cuda-nvrtc(-cu\d\d)?",
    "nvjitlink": r"nvidia-nvjitlink(-cu\d\d)?",
}
_MEMBERS: dict[CompilerName, str] = {
    "ptxas": r"triton/(?:[\w.]+/)*bin/ptxas(?:-blackwell)?",
    "nvrtc": r"(?:nvidia|torch)/(?:\w+/)*lib/libnvrtc(?:-builtins)?(?:-[0-9a-f]+)?\.so\.[\d.]+",
    "nvjitlink": r"nvidia/(?:\w+/)*lib/libnvJitLink\.so\.\d+",
}

NAMES: tuple[CompilerName, ...] = ("ptxas", "nvrtc", "nvjitlink")


def holders(target: LockedTarget) -> dict[CompilerName, Pin]:
    """Give the wheels of a target that may hold a compiler. NVRTC is torch's where no package of its own is locked."""
    found: dict[CompilerName, Pin] = {}
    for name in NAMES:
        for pin in target.pins:
            if pin.is_wheel and re.fullmatch(_PACKAGES[name], pin.name):
                found[name] = pin
    torch = target.pin("torch", "pip")
    if target.inputs.cuda is not None and torch is not None and torch.is_wheel and "nvrtc" not in found:
        found["nvrtc"] = torch
    return found


def compilers(name: CompilerName, pin: Pin, members: Iterable[str]) -> tuple[Compiler, ...]:
    """Give the compilers of one kind among a wheel's members: two where triton has another ptxas for new GPUs."""
    file = pin.artifact.file if pin.artifact else ""
    found = sorted(one for one in members if re.fullmatch(_MEMBERS[name], one))
    if name == "nvrtc":
        # its part of builtins is opened by name, and so has to lie beside it
        found.sort(key=lambda one: "builtins" in one)
        found = found if found and "builtins" not in found[0] else []
        return (Compiler(name, pin.name, pin.version, file, tuple(found)),) if found else ()
    return tuple(Compiler(name, pin.name, pin.version, file, (one,)) for one in found)


def architectures_for(
    compiler: Compiler, all_of_kind: Sequence[Compiler], architectures: Iterable[str]
) -> dict[str, str]:
    """Say which of a target's architectures a compiler is asked for, and by which name: triton takes the one for
    Blackwell from 10.0 on, where there is one, and asks for the architecture's own features from 9.0 on."""
    asked: dict[str, str] = {}
    own = any(_is_blackwell(one) for one in all_of_kind)
    for sm in architectures:
        plain = re.fullmatch(r"sm_(\d+)(\d)", sm)
        if plain is None:
            continue
        capability = int(plain[1]), int(plain[2])
        if compiler.name != "ptxas":
            asked[sm] = sm
        elif _is_blackwell(compiler) == (own and capability >= FIRST_OF_ITS_OWN):
            asked[sm] = f"{sm}a" if capability >= _FEATURES else sm
    return asked


_FEATURES = numbers("9.0")[:2]
"""From this capability on triton asks for architecture-specific code."""


def _is_blackwell(compiler: Compiler) -> bool:
    return compiler.members[0].endswith("-blackwell")
