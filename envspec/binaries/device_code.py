"""The GPUs that a wheel is compiled for, from as little of it as tells: for wheels that lie at an index.

torch writes the architectures that it was compiled for into `libtorch_python.so` (`CUDA_ARCH_FLAGS`, what
`torch.cuda.get_arch_list()` gives), behind 5 to 8 MB of the member; tensorflow writes them into `build_info.py`. In
other wheels, libraries are read from their start. What is found is there; what isn't may stand behind the bounds,
unless all was read: onnxruntime's first modules are compiled for fewer GPUs than its later ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import IO, Annotated, Literal
from zipfile import ZipInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from envspec.base.documents import decode
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.fatbin import Kind
from envspec.binaries.library import Library, is_library_of_nvidias, scan
from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel
from envspec.binaries.window import Window
from envspec.facts.compute_capability import Architecture, parse
from envspec.facts.tables import read

PACKED, UNPACKED = 48 << 20, 512 << 20
"""Bytes of a wheel that are read at most, packed and unpacked, beside what is fetched ahead (2 MiB for a library).
onnxruntime's first fat binary stands behind 9 MB of 230."""
ALL_PACKED, ALL_UNPACKED = 1 << 30, 6 << 30
"""The same of a wheel that is read on, since nothing in its first part is for a GPU of the target. Members are
deflated, so what lies behind can't be had alone."""

_ENOUGH = 8 << 20
"""Bytes of a wheel after which no more of its libraries is read, where some of these held machine code."""
_MODULES = 16
"""Modules with SASS or PTX of a library after which no more are read. The names of the libraries that it loads stand
before them."""

_TORCH = r"torch/lib/(?:libtorch_python\.so|torch_python\.dll)"
_TENSORFLOW = r"tensorflow/python/platform/build_info\.py"
_FLAGS = re.compile(rb"(?:(?:sm|compute)_\d{2,3}[af]? )*(?:sm|compute)_\d{2,3}[af]?\0")
_LONGEST = 512
"""Bytes of the longest list of flags."""

_COMPILED = re.compile(r"\.(?:so|pyd|dll|hsaco|co)(?:\.\d+)*$")
_OWN = re.compile(r"lib(cudart|cublas|cudnn|nccl|nvinfer)(?:-[0-9a-f]{8})?\.so\.(\d\d?)[.\d]*")
_OF_CUDA = re.compile(r"_cuda(\d\d)(\d)(?:_|\.)")


_Capability = Annotated[str, msgspec.Meta(pattern=r"^\d{1,2}\.\d[af]?$")]
_Major = Annotated[str, msgspec.Meta(pattern=r"^\d{1,2}$")]
_Cuda = Annotated[str, msgspec.Meta(pattern=r"^\d\d\.\d$")]
_AmdGpu = Annotated[str, msgspec.Meta(pattern=r"^[\w-]{1,40}$")]
_Loaded = Annotated[str, msgspec.Meta(pattern=r"^[a-z]+\.\d{1,2}$")]


class CompiledLibrary(Struct, frozen=True):
    """One library of a wheel: the capabilities of its machine code and PTX ("9.0a"), as far as read."""

    member: str
    sm: tuple[_Capability, ...] = ()
    ptx: tuple[_Capability, ...] = ()
    compiler: _Major | None = None
    """The major of the CUDA that compiled it, None if unknown."""
    loads: tuple[_Loaded, ...] = ()
    """CUDA's runtime, cuBLAS, cuDNN, NCCL and TensorRT, as it loads them from outside of the wheel ("cudnn.9")."""
    hip: tuple[_AmdGpu, ...] | None = None
    """AMD's GPUs that it has code for ("gfx90a"), as far as known; None where it has none."""

    @property
    def cuda(self) -> frozenset[str]:
        """The CUDA majors whose libraries it loads from outside of the wheel."""
        return frozenset(major for major in self.majors("cudart") | self.majors("cublas") if len(major) == 2)

    def majors(self, library: str) -> frozenset[str]:
        """Give the majors of a library that it loads from outside of the wheel."""
        return frozenset(load.partition(".")[2] for load in self.loads if load.partition(".")[0] == library)

    @property
    def only(self) -> str | None:
        """The CUDA major that it is loaded with, where its name says one (`libbitsandbytes_cuda128.so`)."""
        named = _OF_CUDA.search(PurePosixPath(self.member).name)
        return named[1] if named else None


class DeviceCode(Struct, frozen=True, rename={"listed": "said"}):
    """libraries  those that hold device code of CUDA's or HIP's, or load CUDA's libraries, in the order of their names
    listed     whether the wheel's maker wrote the architectures down, rather than that code was found
    complete   whether all was read
    read       bytes of the wheel that were read for it, packed
    versions   the CUDA versions in the names of its libraries, of which a loader chooses one ("12.8")
    """

    libraries: tuple[CompiledLibrary, ...] = ()
    listed: bool = False
    complete: bool = True
    read: int = 0
    versions: tuple[_Cuda, ...] = ()


def device_code(wheel: OpenWheel, *, to_the_end: bool = False) -> DeviceCode:
    """Find out for which GPUs and which CUDA a wheel is compiled, by a part of it or `to_the_end`.

    Raises UnreadableWheel, and what its file raises.
    """
    for info in wheel.find(_TORCH):
        return _flags_of_torch(wheel, info)
    for info in wheel.find(_TENSORFLOW):
        if code := _read_tensorflow_code(wheel, info):
            return code
    budget = Budget(ALL_PACKED, ALL_UNPACKED) if to_the_end else Budget(PACKED, UNPACKED)
    left, libraries, complete = budget.packed, list[CompiledLibrary](), True
    compiled = sorted(filter(_may_hold_code, wheel.members), key=lambda info: (info.compress_size, info.filename))
    names = (_OF_CUDA.search(PurePosixPath(info.filename).name) for info in compiled)
    versions = tuple(sorted({f"{name[1]}.{name[2]}" for name in names if name}))
    for number, info in enumerate(compiled):
        # of libraries for different CUDAs each is asked
        # each has its share, and what small ones leave of theirs is for the larger
        most = left // (len(compiled) - number)
        if not (to_the_end or versions) and any(compiled_library.sm for compiled_library in libraries):
            most = min(most, _ENOUGH - (budget.packed - left))
        if most <= 0 or budget.unpacked <= 0:
            complete = False
            break
        library, packed = _scan(wheel, info, most, budget, None if to_the_end else _MODULES)
        left -= packed
        complete = complete and library.complete
        held = library.modules or library.named or library.loads or library.hip is not None
        if held and not library.profiles:
            libraries.append(_compiled_library(library))
    return DeviceCode(_without_own(libraries, wheel), complete=complete, read=budget.packed - left, versions=versions)


class PublishedCode(Struct, frozen=True):
    """The notes and the code of a wheel that the table of those that were read to their end has."""

    notes: BuildNotes
    code: DeviceCode


@cache
def _rows() -> Mapping[str, str]:
    try:
        return {row["sha256"]: row["says"] for row in read("wheel_code")["wheels"]}
    except OSError:
        return {}  # an older edition of the facts


def published_code(sha256: str) -> PublishedCode | None:
    """Give the code of a wheel on PyPI that the table has by its hash, which names its content."""
    text = _rows().get(sha256)
    return decode(text.encode(), PublishedCode) if text else None


_OF_GPUS = re.compile(
    r"(?<![a-z])cuda|(?<![a-z])cu1\d(?!\d)|nvrtc|cudnn|nccl|nvinfer|tensorrt|(?<![a-z])sm_?\d\d", re.I
)


def speaks_of_gpus(names: Iterable[str]) -> bool:
    """Return whether the names of a wheel's files promise code for GPUs: of compiled files, or files of nothing
    else."""
    return any(
        name.endswith((".cubin", ".fatbin")) or (_COMPILED.search(name) and _OF_GPUS.search(name)) for name in names
    )


def _may_hold_code(info: ZipInfo) -> bool:
    return _COMPILED.search(info.filename) is not None and not is_library_of_nvidias(info.filename)


class _Bounded(Struct):
    """A member's stream that reads no more once `most` packed bytes were taken for it, or none are left to unpack."""

    stream: IO[bytes]
    packed: Callable[[], int]
    most: int
    budget: Budget

    def read(self, size: int, /) -> bytes:
        if self.packed() >= self.most:
            raise BudgetSpent
        chunk = self.stream.read(size)
        self.budget.take(0, len(chunk))
        return chunk

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.stream.seek(offset, whence)


def _scan(wheel: OpenWheel, info: ZipInfo, most: int, budget: Budget, modules: int | None) -> tuple[Library, int]:
    with wheel.open(info) as stream:
        bounded = _Bounded(stream, lambda: wheel.bytes_read(info), most, budget)
        return scan(Window(bounded, can_seek=False), info.filename, info.file_size, modules), wheel.bytes_read(info)


def _compiled_library(library: Library) -> CompiledLibrary:
    return CompiledLibrary(
        library.path,
        _texts(library.architectures(Kind.SASS)),
        _texts(library.architectures(Kind.PTX)),
        library.cuda,
        tuple(sorted(library.loads)),
        None if library.hip is None else tuple(sorted(library.hip)),
    )


def _without_own(libraries: Iterable[CompiledLibrary], wheel: OpenWheel) -> tuple[CompiledLibrary, ...]:
    """Leave out the libraries that lie in the wheel itself, under their own names or under those that auditwheel gave
    them. cuBLAS comes with CUDA's runtime. cuDNN's first library alone, as ctranslate2 4.4.0 has it, loads the others
    from outside."""
    names = [PurePosixPath(info.filename).name for info in wheel.members]
    own = {f"{match[1]}.{match[2]}" for name in names if (match := _OWN.fullmatch(name))}
    own |= {library.replace("cudart", "cublas") for library in own}
    parts = any(name.startswith("libcudnn_") for name in names)
    outside = {library for library in own if library.startswith("cudnn") and not parts}

    def loads_of(library: CompiledLibrary) -> tuple[str, ...]:
        return tuple(sorted({*library.loads} - own | (outside if library.sm else set())))

    return tuple(
        replace(library, loads=loads_of(library)) for library in sorted(libraries, key=lambda library: library.member)
    )


def _flags_of_torch(wheel: OpenWheel, info: ZipInfo) -> DeviceCode:
    budget, before = Budget(PACKED, UNPACKED), b""
    with wheel.open(info) as stream:
        while chunk := stream.read(1 << 20):
            if flags := _FLAGS.search(before + chunk):
                library = _library_from_flags(info.filename, flags[0][:-1].decode().split())
                return DeviceCode((library,), listed=True, read=wheel.bytes_read(info))
            budget.unpacked -= len(chunk)
            if budget.unpacked <= 0 or wheel.bytes_read(info) > budget.packed:
                break
            before = (before + chunk)[-_LONGEST:]
        # a CPU build has none
        return DeviceCode(complete=not chunk, read=wheel.bytes_read(info))


def _read_tensorflow_code(wheel: OpenWheel, info: ZipInfo) -> DeviceCode | None:
    try:
        text = wheel.read(info, Budget(1 << 20, 1 << 20)).decode("utf-8", "replace")
    except BudgetSpent:
        return None
    listed = re.search(r"cuda_compute_capabilities['\"][:,] \[([^\]]{0,999})\]", text)
    if listed is None:
        return DeviceCode(listed=True) if re.search(r"is_cuda_build['\"][:,] False", text) else None
    return DeviceCode(
        (_library_from_flags(info.filename, re.findall(r"(?:sm|compute)_\d{2,3}[af]?", listed[1])),), listed=True
    )


def _library_from_flags(member: str, flags: Iterable[str]) -> CompiledLibrary:
    kinds: dict[Literal["sm", "compute"], list[Architecture]] = {"sm": [], "compute": []}
    for flag in flags:
        architecture = parse(flag)
        if architecture is not None:
            kinds["sm" if flag.startswith("sm") else "compute"].append(architecture)
    return CompiledLibrary(member, _texts(sorted(kinds["sm"])), _texts(sorted(kinds["compute"])))


def _texts(architectures: Iterable[Architecture]) -> tuple[str, ...]:
    return tuple(f"{architecture.capability}{architecture.feature}" for architecture in architectures)
