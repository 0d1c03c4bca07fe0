"""Link's knowledge of wheels, and its results, as frozen values."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from envspec.binaries.elf import DynamicFacts
from envspec.binaries.library import is_library_of_nvidias

# The symbols that link asks about: torch's and the CUDA libraries', known by their names.


Family = Literal["torch", "stable", "cuda", "python"]
"""torch   torch's C++ and Python interfaces, which change with every release
stable  the C functions of torch's stable ABI, which later releases keep
cuda    the CUDA libraries
python  the function by which Python starts an extension module
"""

_NESTED = rb"_Z(?:T[VTIS]|GV)?N[rVKRO]*"
_TORCH = _NESTED + rb"(?:3c10|4c10d|2at|5torch|6caffe2)|(?:_Z\d+)?THP[A-Z]"
_STABLE = rb"aoti_torch_|torch_[a-z]"
_CUDA = (
    rb"(?:__)?cuda[A-Z]|cublas(?:Lt|Xt)?[A-Z]|cudnn[A-Z]|cufft[A-Z]|cuFile[A-Z]|cupti[A-Z]|curand[A-Z]"
    rb"|cusolver[A-Z]|cusparse(?:Lt)?[A-Z]|p?nccl[A-Z]|nvrtc[A-Z]|(?:__)?nvJitLink|nvshmem"
)
_FAMILIES = re.compile(
    rb"(?P<torch>" + _TORCH + rb")|(?P<stable>" + _STABLE + rb")|(?P<cuda>" + _CUDA + rb")|(?P<python>PyInit_)"
)
_PREFIX = re.compile(r"_Z(T[VTIS]|GV)?N[rVKRO]*")
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_SPECIAL = {"TV": "vtable of ", "TT": "VTT of ", "TI": "type of ", "TS": "type name of ", "GV": "guard of "}


def concerns(name: bytes) -> bool:
    """Return whether a symbol is of a family: facts keep no others."""
    return _FAMILIES.match(name) is not None


def family(symbol: str) -> Family | None:
    """Give a symbol's family."""
    match = _FAMILIES.match(symbol.encode())
    return match.lastgroup if match else None  # type: ignore[return-value]


def is_extension(facts: DynamicFacts) -> bool:
    """Return whether a file is an extension module of Python."""
    return any(family(symbol) == "python" for symbol in facts.exported)


_ROCM = re.compile(
    r"lib(?:amdhip64|amd_comgr|amd_smi|hsa-runtime64|rccl|MIOpen|migraphx|hip(?:blas|blaslt|dnn|fft|rand|rtc|solver"
    r"|sparse|sparselt|tensor)|roc(?:alution|blas|fft|rand|solver|sparse|tx64|tracer64|m_smi64)|rocprofiler[\w-]*)"
    r"(?:-builtins)?\.so(?:\.\d+)*"
)
"""ROCm's libraries. Source: what the wheels of jax-rocm10-pjrt, cupy-rocm-7-0 and torch's ROCm builds load."""


def is_rocms(library: str) -> bool:
    """Return whether a library is ROCm's: of AMD's GPUs."""
    return _ROCM.fullmatch(library) is not None


def families_of(library: str) -> tuple[Family, ...]:
    """Give the families whose symbols a library exports, by its name."""
    if library.startswith(("libtorch", "libc10", "libshm")):
        return ("torch", "stable")
    # RCCL has NCCL's functions; libcuda is the driver's
    if library.startswith("librccl.so"):
        return ("cuda",)
    return ("cuda",) if is_library_of_nvidias(library) and not library.startswith("libcuda.") else ()


def plain_name(symbol: str) -> str:
    """Give a C++ symbol's name as people write it, without its arguments: `c10::detail::torchCheckFail`.

    A template's arguments and an operator's sign are left out too. What isn't a nested name stays as it is.
    """
    prefix = _PREFIX.match(symbol)
    if prefix is None:
        return symbol
    parts, rest = _identifiers(symbol, prefix.end())
    if not parts:
        return symbol
    if re.match(r"C[123]", rest):
        parts.append(parts[-1])
    elif re.match(r"D[012]", rest):
        parts.append(f"~{parts[-1]}")
    elif not rest.startswith(("E", "I", "B")):
        parts.append("operator")
    return _SPECIAL.get(prefix[1], "") + "::".join(parts)


def overload_prefix(symbol: str) -> str | None:
    """Return the part of a mangled function's name that its overloads share; None for any other symbol."""
    prefix = _PREFIX.match(symbol)
    if prefix is None or prefix[1]:
        return None
    parts, rest = _identifiers(symbol, prefix.end())
    return symbol[: len(symbol) - len(rest) + 1] if parts and rest.startswith("E") else None


def _identifiers(symbol: str, at: int) -> tuple[list[str], str]:
    """Read a nested name's identifiers, each behind its length, and the rest of the name."""
    parts = []
    while number := _LENGTH.match(symbol, at):
        at = number.end() + int(number[0])
        parts.append(symbol[number.end() : at])
    return parts, symbol[at:]


class ElfFile(Struct, frozen=True):
    """path   where the file is installed, from site-packages
    facts  its dynamic facts; of its symbols those of a family (`envspec.prove.link.model`)
    """

    path: str
    facts: DynamicFacts


class WheelFacts(Struct, frozen=True):
    """files   the files of a wheel that the loader can load
    unread  those whose tables are damaged, each with the reason
    imports the modules that METADATA forgets most (`FORGOTTEN`), each with the first of the wheel's own that imports it
            as it is imported; none where that isn't known
    brings  those of these modules that the wheel has itself
    optional  the files of extension modules that the wheel's own Python does without: it catches their ImportError
    """

    files: tuple[ElfFile, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    imports: tuple[tuple[str, str], ...] = ()
    brings: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


FORGOTTEN = {
    "distutils": "setuptools",
    "pkg_resources": "setuptools<82",
    **{name: name for name in ("filelock", "numpy", "packaging", "psutil", "requests", "scipy", "setuptools", "six")},
    **{name: name for name in ("torch", "tqdm", "triton", "typing_extensions", "wheel")},
    "PIL": "pillow",
    "attr": "attrs",
    "yaml": "pyyaml",
}
"""Modules that nearly every environment has, and the requirement that brings each: whoever publishes a wheel doesn't
notice that its METADATA lacks one. `distutils` is Python's own up to 3.11, and setuptools puts its own in its place."""


class LinkedPackage(Struct, frozen=True):
    """A package of a target with its wheel's file name and facts."""

    name: str
    version: str
    file: str
    facts: WheelFacts


class Unloadable(Struct, frozen=True):
    """The evidence of a finding of link, about a file of a wheel.

    version  the package's
    paths    the files that can't be loaded, from site-packages; of an import the module that has it
    names    the libraries, symbol versions, symbols or modules that they lack
    """

    version: str
    paths: tuple[str, ...]
    names: tuple[str, ...]
