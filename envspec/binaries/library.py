"""The device code of one file, and of a whole wheel or environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from envspec.binaries.architecture import Code, Kind
from envspec.binaries.cubin import MAGIC as ELF_MAGIC
from envspec.binaries.cubin import read_cubin
from envspec.binaries.fatbin import MAGIC as FATBIN_MAGIC
from envspec.binaries.fatbin import read_fatbin
from envspec.binaries.window import Window
from envspec.facts.compute_capability import Architecture

_PROFILING = re.compile(
    r"lib(?:cupti|nvperf_host|nvperf_target|checkpoint|pcsamplingutil)(?:_static)?\.(?:so|a)\b|cupti64_"
)
"""CUPTI's libraries, as the nvidia-cuda-cupti and triton wheels have them."""


@dataclass(frozen=True)
class ModuleCoverage:
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


@dataclass(frozen=True)
class Library:
    """A file with device code.

    `path` is relative to the wheel or the prefix, with slashes. Files of pure device code (`.cubin`, `.fatbin`) count
    as one library a folder: `files` of them, `path` ending in `/*.cubin`. `modules` maps the set of codes in a module
    to the number of such modules. `complete` is False if a fat binary is cut off or damaged.
    """

    path: str
    size: int
    modules: Mapping[frozenset[Code], int] = field(default_factory=dict)
    complete: bool = True
    files: int = 1

    @property
    def profiles(self) -> bool:
        """Whether its code is for profiling alone: CUPTI carries cubins that it puts into what it profiles, and works
        on GPUs that none of them is for."""
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

    def coverage(self, gpu: Architecture) -> ModuleCoverage:
        """Count the modules that a GPU of this compute capability can use."""
        counts = Counter[str]()
        for codes, number in self.modules.items():
            kinds = {code.kind for code in codes if code.runs_on(gpu)}
            counts["native" if Kind.SASS in kinds else "jit" if kinds else "none"] += number
        return ModuleCoverage(counts["native"], counts["jit"], counts["none"])


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection. `kind` is "wheel", "prefix" or "file".

    `binaries` counts the files that could hold device code; `libraries`, sorted by path, are those that do.
    `variant` is what a variant's wheel says of itself, label → properties. `unread` has each file that couldn't be read
    and the reason.
    """

    source: str
    kind: str
    binaries: int
    libraries: tuple[Library, ...]
    unread: tuple[str, ...] = ()
    variant: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def scan(window: Window, path: str, size: int) -> Library:
    """Read everything in the window as one library; `modules` is empty if there is no device code."""
    modules = Counter[frozenset[Code]]()
    complete = True
    while magic := window.search((FATBIN_MAGIC, ELF_MAGIC)):
        module = read_fatbin(window) if magic == FATBIN_MAGIC else read_cubin(window)
        if module is not None:
            modules[module.codes] += 1
            complete = complete and module.complete
    return Library(path, size, dict(modules), complete)


def merge(path: str, parts: list[Library]) -> Library:
    """Merge several files into one library."""
    modules = Counter[frozenset[Code]]()
    for part in parts:
        modules.update(part.modules)
    size = sum(part.size for part in parts)
    return Library(path, size, dict(modules), all(part.complete for part in parts), sum(part.files for part in parts))
