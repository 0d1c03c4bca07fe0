"""The fat binary: NVIDIA's container of device code for several architectures.

NVIDIA publishes no description. This one was found by compiling with nvcc 13.0 and comparing with cuobjdump 13.5, and
then checked on the wheels of torch 2.5 and 2.9, cuDNN, NCCL, cuBLAS, xformers and bitsandbytes (CUDA 11.0 to 13.1).
All numbers are little-endian.

    header, 16 bytes      +0 u32 magic 0xBA55ED50   +4 u16 version 1   +6 u16 header size 16   +8 u64 size of entries
    entry, >= 64 bytes    +0 u16 kind               +4 u32 size of this header   +8 u64 size of the payload, padded
                          +28 u32 architecture (90, 120)                         +40 u64 flags

Entries follow each other without gaps: header, payload, header, payload. A compressed payload (flags 0x2000: LZ4,
0x8000: Zstandard) needs no decompression, since kind, architecture and flags stand in the header.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import IO

from msgspec import Struct

from envspec.binaries.window import Window
from envspec.facts.compute_capability import Architecture, ptx_runs, sass_runs

# Pieces of device code in binaries, and the GPUs that can load them.


class Kind(Enum):
    """A kind of device code. `LTO` is NVVM IR for link-time optimisation, which drivers can't run as it is."""

    SASS = "sass"
    PTX = "ptx"
    LTO = "lto"
    OTHER = "other"


class Code(Struct, frozen=True):
    """One piece of device code inside a module: its kind and the architecture it was compiled for."""

    kind: Kind
    architecture: Architecture

    @property
    def name(self) -> str:
        """`sm_90a` for SASS, `compute_90` for PTX, `lto_90` for LTO IR: the names that nvcc's `-gencode` takes."""
        prefix = {Kind.SASS: "sm", Kind.PTX: "compute", Kind.LTO: "lto", Kind.OTHER: "other"}[self.kind]
        return f"{prefix}_{self.architecture}"

    def runs_on(self, gpu: Architecture, cuda: str | None = None) -> bool:
        """Return whether a GPU of this compute capability can load the code. The driver compiles PTX on loading.

        `cuda` is the version that compiled the code, None if unknown.
        """
        if self.kind is Kind.SASS:
            return sass_runs(self.architecture, gpu, cuda)
        return self.kind is Kind.PTX and ptx_runs(self.architecture, gpu)


MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
"""The first bytes of every fat binary: magic, version and header size."""

ARCHITECTURE_SPECIFIC = 0x100000
FAMILY_SPECIFIC = 0x200000

KINDS = {1: Kind.PTX, 2: Kind.SASS, 8: Kind.LTO, 16: Kind.SASS}
"""Kind 16 is an ELF as well: cuobjdump lists it as one."""

_HEADER = struct.Struct("<8xQ")
_ENTRY = struct.Struct("<HxxIQ12xI8xQ")
_MIN_ENTRY_HEADER = 48
_MAX_ENTRY_HEADER = 1 << 16


class Module(Struct, frozen=True):
    """A unit that the CUDA driver loads at once: a fat binary, or a cubin by itself.

    `complete` is False if the bytes end or stop making sense before the fat binary ends.
    """

    codes: frozenset[Code]
    complete: bool = True


def read_fatbin(window: Window) -> Module | None:
    """Read the fat binary at the window's position and move past it.

    None if there is no readable entry: then `MAGIC` stood in other data. The window stops at the last good byte of a
    damaged one.
    """
    header = window.peek(_HEADER.size)
    if len(header) < _HEADER.size or not header.startswith(MAGIC):
        window.skip(1)
        return None
    (left,) = _HEADER.unpack(header)
    window.skip(_HEADER.size)
    codes: set[Code] = set()
    while left:
        entry = window.peek(_ENTRY.size)
        if len(entry) < _ENTRY.size:
            break
        kind, header_size, payload, number, flags = _ENTRY.unpack(entry)
        size = header_size + payload
        sound = kind and _MIN_ENTRY_HEADER <= header_size <= _MAX_ENTRY_HEADER and 10 <= number < 1000
        if not sound or size > left:
            break
        codes.add(Code(KINDS.get(kind, Kind.OTHER), Architecture(number, _feature(flags))))
        if window.skip(size) < size:
            break
        left -= size
    return Module(frozenset(codes), complete=not left) if codes else None


def _feature(flags: int) -> str:
    if flags & ARCHITECTURE_SPECIFIC:
        return "a"
    return "f" if flags & FAMILY_SPECIFIC else ""


# The cubin: an ELF file of SASS for one architecture, as it stands by itself outside fat binaries.
#
# Where the architecture stands (LLVM's `llvm/BinaryFormat/ELF.h` names these flags; checked on nvcc 13.0's output and
# on the 3,460 cubins of flashinfer-cubin 0.4.1):
#
#     e_machine             190, EM_CUDA
#     e_ident[8] <= 7       e_flags bits 0-7: the number; 0x800: architecture-specific       (up to CUDA 12.7)
#     e_ident[8] >= 8       e_flags bits 8-15: the number; 0x8: architecture-specific        (from CUDA 12.8)
#     .note.nv.tkinfo       ptxas' own command line, `-arch sm_100f`: the only place that tells a family-specific cubin,
#                           and, from CUDA 12.8, an `sm_90a` one whose e_flags don't say it

CUBIN_MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of every 64-bit little-endian ELF file, cubins included."""

EM_CUDA = 190
_CUBIN_HEADER = struct.Struct("<8xB9xH20xQI6xHH2x")
_COMMAND_LINE = re.compile(rb"NVIDIA Corp\0.{0,512}?-arch[ =]sm_(\d{2,3})([af]?)\b", re.DOTALL)
_LOOK_AHEAD = 1 << 16
"""Bytes to search for the note, which stands near the front: the furthest one seen is at 12 KB."""


def read_cubin(window: Window) -> Module | None:
    """Read the cubin at the window's position and move past the ELF header. None if this ELF file isn't a cubin."""
    header = window.peek(_CUBIN_HEADER.size)
    if len(header) < _CUBIN_HEADER.size:
        window.skip(len(CUBIN_MAGIC))
        return None
    abi, machine, table, flags, entry_size, entries = _CUBIN_HEADER.unpack(header)
    if machine != EM_CUDA:
        window.skip(len(CUBIN_MAGIC))
        return None
    head = window.peek(min(_LOOK_AHEAD, table + entry_size * entries))
    window.skip(_CUBIN_HEADER.size)
    number, specific = (flags >> 8 & 0xFF, flags & 0x8) if abi >= 8 else (flags & 0xFF, flags & 0x800)
    feature = "a" if specific else ""
    note = _COMMAND_LINE.search(head)
    if note and int(note[1]) == number:
        feature = note[2].decode() or feature
    return Module(frozenset({Code(Kind.SASS, Architecture(number, feature))}))


# The files of a wheel or of a folder that could hold device code.

MAGICS = (b"\x7fELF", b"MZ", b"!<arch>\n", MAGIC)
"""The first bytes of such files: ELF (libraries and cubins), Windows DLLs, static archives, fat binaries."""

TEXT = frozenset((".py", ".pyc", ".pyi", ".h", ".hpp", ".cuh", ".txt", ".json", ".md", ".html", ".js", ".css", ".rst"))
"""Suffixes of files to skip: an environment has tens of thousands, and each open is a round trip on a cluster."""


class Member(Struct, frozen=True):
    """A file to scan: path with slashes, size in bytes, how to open it, and whether it lies on disk unpacked."""

    path: str
    size: int
    open: Callable[[], IO[bytes]]
    on_disk: bool


def in_wheel(archive: zipfile.ZipFile) -> Iterator[Member]:
    """List the members of an open wheel. Their names are only shown, never written to."""
    for info in archive.infolist():
        if PurePosixPath(info.filename).suffix in TEXT:
            continue

        def open_member(info: zipfile.ZipInfo = info) -> IO[bytes]:
            return archive.open(info)

        with open_member() as stream:
            if _may_hold_code(stream):
                yield Member(info.filename, info.file_size, open_member, on_disk=False)


def on_disk(path: Path, shown: str) -> Member | None:
    """Make a member of a file on disk. None if it can't hold device code. Raises OSError."""

    def open_file() -> IO[bytes]:
        return path.open("rb")

    with open_file() as stream:
        if not _may_hold_code(stream):
            return None
        return Member(shown, os.fstat(stream.fileno()).st_size, open_file, on_disk=True)


def below(root: Path, unread: Callable[[str, OSError], None]) -> Iterator[Member]:
    """List the members below a folder. Calls `unread` for each that can't be read.

    Follows links (Nix and uv's symlink mode build environments of links). Every file and folder counts once, under its
    own name rather than a link's where it has one below `root`.
    """
    seen: set[tuple[int, int]] = set()
    entries, links = deque([root]), deque[Path]()
    while entries or links:
        path = entries.popleft() if entries else links.popleft()
        shown = path.relative_to(root).as_posix()
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            if stat.S_ISDIR(status.st_mode):
                for entry in sorted(path.iterdir()):
                    (links if entry.is_symlink() else entries).append(entry)
            elif stat.S_ISREG(status.st_mode) and path.suffix not in TEXT:
                member = on_disk(path, shown)
                if member is not None:
                    yield member
        except FileNotFoundError:
            continue  # a dangling link, or removed meanwhile
        except OSError as error:
            unread(shown, error)


def _may_hold_code(stream: IO[bytes]) -> bool:
    return stream.read(max(map(len, MAGICS))).startswith(MAGICS)
