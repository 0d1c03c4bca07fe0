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

import struct
from dataclasses import dataclass

from envspec.binaries.architecture import Code, Kind
from envspec.binaries.window import Window
from envspec.facts.compute_capability import Architecture

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


@dataclass(frozen=True)
class Module:
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
