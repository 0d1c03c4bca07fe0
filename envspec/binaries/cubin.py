"""The cubin: an ELF file of SASS for one architecture, as it stands by itself outside fat binaries.

Where the architecture stands (LLVM's `llvm/BinaryFormat/ELF.h` names these flags; checked on nvcc 13.0's output and on
the 3,460 cubins of flashinfer-cubin 0.4.1):

    e_machine             190, EM_CUDA
    e_ident[8] <= 7       e_flags bits 0-7: the number; 0x800: architecture-specific       (up to CUDA 12.7)
    e_ident[8] >= 8       e_flags bits 8-15: the number; 0x8: architecture-specific        (from CUDA 12.8)
    .note.nv.tkinfo       ptxas' own command line, `-arch sm_100f`: the only place that tells a family-specific cubin,
                          and, from CUDA 12.8, an `sm_90a` one whose e_flags don't say it
"""

from __future__ import annotations

import re
import struct

from envspec.binaries.architecture import Code, Kind
from envspec.binaries.fatbin import Module
from envspec.binaries.window import Window
from envspec.facts.compute_capability import Architecture

MAGIC = b"\x7fELF\x02\x01"
"""The first bytes of every 64-bit little-endian ELF file, cubins included."""

EM_CUDA = 190
_HEADER = struct.Struct("<8xB9xH20xQI6xHH2x")
_COMMAND_LINE = re.compile(rb"NVIDIA Corp\0.{0,512}?-arch[ =]sm_(\d{2,3})([af]?)\b", re.DOTALL)
_LOOK_AHEAD = 1 << 16
"""Bytes to search for the note, which stands near the front: the furthest one seen is at 12 KB."""


def read_cubin(window: Window) -> Module | None:
    """Read the cubin at the window's position and move past the ELF header. None if this ELF file isn't a cubin."""
    header = window.peek(_HEADER.size)
    if len(header) < _HEADER.size:
        window.skip(len(MAGIC))
        return None
    abi, machine, table, flags, entry_size, entries = _HEADER.unpack(header)
    if machine != EM_CUDA:
        window.skip(len(MAGIC))
        return None
    head = window.peek(min(_LOOK_AHEAD, table + entry_size * entries))
    window.skip(_HEADER.size)
    number, specific = (flags >> 8 & 0xFF, flags & 0x8) if abi >= 8 else (flags & 0xFF, flags & 0x800)
    feature = "a" if specific else ""
    note = _COMMAND_LINE.search(head)
    if note and int(note[1]) == number:
        feature = note[2].decode() or feature
    return Module(frozenset({Code(Kind.SASS, Architecture(number, feature))}))
