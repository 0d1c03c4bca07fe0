"""The device code of one file, and of a whole wheel or environment; an inspection as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from envspec.binaries import hip
from envspec.binaries.fatbin import CUBIN_MAGIC, MAGIC, Code, Kind, read_cubin, read_fatbin
from envspec.binaries.wheel import BudgetSpent
from envspec.binaries.window import Window
from envspec.facts.build_labels import label_of
from envspec.facts.compute_capability import Architecture

_PROFILING = re.compile(
    r"lib(?:cupti|nvperf_host|nvperf_target|checkpoint|pcsamplingutil)(?:_static)?\.(?:so|a)\b|cupti64_"
)
"""CUPTI's libraries, as the nvidia-cuda-cupti and triton wheels have them."""

_NAMED = (b"libcu", b"libn")
_NAME = re.compile(
    rb"lib(?P<stem>(?P<cuda>cudart|cublas)(?:Lt)?|cudnn|nccl|nvinfer)"
    rb"(?P<hash>[.-][0-9a-f]{8})?\.so\.(?P<major>[1-9]\d?)(?:\.\d+)*\0"
)
"""CUDA's runtime and cuBLAS are numbered as CUDA is. What auditwheel put beside a library has a hash in its name."""

_PLACE = re.compile(r"(?:/|_|-)cu(?:da)?(\d\d)x?(?=[-/])")
"""CUDA in the paths of NVIDIA's own libraries: `nvidia/cu13/lib/…`, `nvidia_cudnn_cu12-9.26.0.51-…`."""


_NVIDIAS_LIBRARIES = re.compile(
    r"lib(?:cuda|cudart|cudadevrt|cublas(?:Lt)?|cudnn(?:_[a-z_]+)?|cufftw?|cufile(?:_rdma)?|cupti|curand"
    r"|cusolver(?:Mg)?|cusparse(?:Lt)?|nccl|npp[a-z]+|nvblas|nvfatbin|nvinfer(?:_[a-z_]+)?|nvjpeg|nvJitLink"
    r"|nvonnxparser|nvperf_[a-z]+|nvptxcompiler|nvrtc(?:-builtins)?|nvshmem(?:_[a-z0-9_]+)?|nvToolsExt|nvvm)"
    r"(?:[-.]|_static)[^/]*"
)


def is_library_of_nvidias(path: str) -> bool:
    """Return whether a file is a library of CUDA's, cuDNN, NCCL or TensorRT, by its exact name: libcudf and libcuvs are
    RAPIDS' own. Source: the files in the wheels of nvidia-*-cu12, nvidia-* for CUDA 13 and tensorrt-cu12-libs."""
    return _NVIDIAS_LIBRARIES.fullmatch(path.rpartition("/")[2]) is not None


class CudaNamed(NamedTuple):
    """A CUDA major that a library names in `libcudart.so.12`. `own` says that its wheel brings that file along."""

    major: str
    own: bool = False


class ModuleCoverage(Struct, frozen=True):
    """The number of a library's modules that a GPU can use: by their SASS, by compiling their PTX, or not at all."""

    native: int
    jit: int
    none: int

    @property
    def verdict(self) -> str:
        """`native`, `jit` or `no`. A healthy library often has some modules for other GPUs only."""
        if not self.native and not self.jit:
            return "no"
        return "native" if self.native >= self.jit else "jit"


class Library(Struct, frozen=True):
    """A file with device code.

    `path` is relative to the wheel or the prefix, with slashes. Files of pure device code (`.cubin`, `.fatbin`) count
    as one library a folder: `files` of them, `path` ending in `/*.cubin`. `modules` maps the set of codes in a module
    to the number of such modules. `complete` is False if a fat binary is cut off or damaged, or not all was read.
    `named` are the CUDA majors in the names of libraries that it loads, `loads` those and the cuDNN, NCCL and TensorRT
    that it loads under their own names ("cudnn.9", "nvinfer.10"). `hip` are AMD's GPUs that it has code for ("gfx90a"),
    as far as known; None where it has none.
    """

    path: str
    size: int
    modules: Mapping[frozenset[Code], int] = field(default_factory=dict)
    complete: bool = True
    files: int = 1
    named: frozenset[CudaNamed] = frozenset()
    cuda: str | None = None
    """The major of the CUDA that compiled it, None if unknown."""
    loads: frozenset[str] = frozenset()
    hip: frozenset[str] | None = None

    @property
    def profiles(self) -> bool:
        """Return whether its code is for profiling alone: CUPTI carries cubins that it puts into what it profiles, and
        works on GPUs that none of them is for."""
        return _PROFILING.match(PurePosixPath(self.path).name) is not None

    @property
    def module_count(self) -> int:
        return sum(self.modules.values())

    def architectures(self, kind: Kind) -> dict[Architecture, int]:
        """The architectures with code of this kind, sorted -> the number of modules that hold it."""
        counts = Counter[Architecture]()
        for codes, number in self.modules.items():
            counts.update({code.architecture: number for code in codes if code.kind is kind})
        return dict(sorted(counts.items()))

    def counts(self) -> dict[str, dict[str, int]]:
        """Count the modules that hold code, by its kind and by the name of its architecture."""
        return {
            kind.value: {Code(kind, built).name: number for built, number in self.architectures(kind).items()}
            for kind in Kind
        }

    def coverage(self, gpu: Architecture) -> ModuleCoverage:
        """Count the modules that a GPU of this compute capability can use."""
        counts = Counter[str]()
        for codes, number in self.modules.items():
            kinds = {code.kind for code in codes if code.runs_on(gpu, self.cuda)}
            counts["native" if Kind.SASS in kinds else "jit" if kinds else "none"] += number
        return ModuleCoverage(counts["native"], counts["jit"], counts["none"])


class Inspection(Struct, frozen=True):
    """The result of an inspection. `kind` is "wheel", "prefix" or "file".

    `binaries` counts the files that could hold device code; `libraries`, sorted by path, are those that hold CUDA's.
    `hip` has the paths of those with code for AMD's GPUs.
    `variant` is what a variant's wheel says of itself, label → properties. `unread` has each file that couldn't be read
    and the reason.
    """

    source: str
    kind: str
    binaries: int
    libraries: tuple[Library, ...]
    unread: tuple[str, ...] = ()
    variant: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hip: tuple[str, ...] = ()


def scan(window: Window, path: str, size: int, most: int | None = None) -> Library:
    """Read the window as one library; `modules` is empty if there is no device code. It isn't complete where the window
    raises BudgetSpent, nor where `most` modules with SASS or PTX were found: libcudf has others of LTO IR before them.
    """
    runnable = 0
    modules = Counter[frozenset[Code]]()
    named: set[CudaNamed] = set()
    loads: set[str] = set()
    amd: frozenset[str] | None = None
    complete = True
    try:
        while magic := window.search((MAGIC, CUBIN_MAGIC, hip.BUNDLE, hip.COMPRESSED, *_NAMED)):
            if magic in _NAMED:
                name = _NAME.match(window.peek(64))
                if name and not name["hash"]:
                    loads.add(f"{(name['cuda'] or name['stem']).decode()}.{name['major'].decode()}")
                if name and name["cuda"] and len(name["major"]) == 2:
                    named.add(CudaNamed(name["major"].decode(), name["hash"] is not None))
                window.skip(len(magic))
                continue
            if magic in (hip.BUNDLE, hip.COMPRESSED):
                gpus = hip.read_bundle(window) if magic == hip.BUNDLE else hip.read_compressed_bundle(window)
                amd = amd if gpus is None else (amd or frozenset()) | gpus
                continue
            if magic == CUBIN_MAGIC and hip.is_code_object(window.peek(20)):
                amd = amd or frozenset()
            module = read_fatbin(window) if magic == MAGIC else read_cubin(window)
            if module is not None:
                modules[module.codes] += 1
                complete = complete and module.complete
                runnable += any(code.kind in (Kind.SASS, Kind.PTX) for code in module.codes)
                if runnable == most:
                    complete = False
                    break
    except BudgetSpent:
        complete = False
    compiler = _compiler(named, path)
    return Library(path, size, dict(modules), complete, 1, frozenset(named), compiler, frozenset(loads), amd)


def _compiler(named: Iterable[CudaNamed], path: str) -> str | None:
    """Find the CUDA major that compiled a library; None where it names several, as one that can load any of them."""
    majors = {name.major for name in named} or set(_PLACE.findall(path))
    return majors.pop() if len(majors) == 1 else None


def compiler_major(wheel: str, version: str | None) -> str | None:
    """Find the CUDA major that compiled a wheel's libraries, by its file name or by the `version` in its notes
    ("12.8")."""
    label = label_of("", wheel)
    named = (label and label.cuda_major) or next(iter(_PLACE.findall(wheel)), None)
    return named or (version.partition(".")[0] if version else None)


def merge(path: str, parts: list[Library]) -> Library:
    """Merge several files into one library."""
    modules = Counter[frozenset[Code]]()
    for part in parts:
        modules.update(part.modules)
    size = sum(part.size for part in parts)
    return Library(path, size, dict(modules), all(part.complete for part in parts), sum(part.files for part in parts))


# An inspection as JSON.


class QueriedGpu(Struct, frozen=True):
    """A GPU that the user asks about: its name as given, and its compute capability as an architecture."""

    name: str
    architecture: Architecture

    def __str__(self) -> str:
        capability = self.architecture.capability
        return f"compute capability {capability}" if self.name == capability else f"{self.name} ({capability})"


def without_code_for(inspection: Inspection, gpu: QueriedGpu) -> tuple[str, ...]:
    """List the paths of the libraries without any module that the GPU can use, but for those that only profile."""
    judged = (lib for lib in inspection.libraries if not lib.profiles)
    return tuple(lib.path for lib in judged if lib.coverage(gpu.architecture).verdict == "no")


def report(inspection: Inspection, gpus: Sequence[QueriedGpu] = ()) -> dict[str, Any]:
    """Turn the inspection and its coverage of each GPU into plain values."""
    return {**asdict(inspection), "libraries": [_library(library, gpus) for library in inspection.libraries]}


def _library(library: Library, gpus: Sequence[QueriedGpu]) -> dict[str, Any]:
    return {
        "path": library.path,
        "size": library.size,
        "files": library.files,
        "modules": library.module_count,
        "complete": library.complete,
        **library.counts(),
        "gpus": [] if library.profiles else [_gpu(library, gpu) for gpu in gpus],
    }


def _gpu(library: Library, gpu: QueriedGpu) -> dict[str, Any]:
    coverage = library.coverage(gpu.architecture)
    named = {"gpu": gpu.name, "capability": gpu.architecture.capability}
    return {**named, "verdict": coverage.verdict, **asdict(coverage)}
