"""Cubins as ptxas writes their heads, and fat binaries of them: of any architecture, and with no code."""

import struct
from dataclasses import dataclass

from envspec.binaries.fatbin import Code, Kind
from envspec.facts.compute_capability import Architecture


def cubin(
    number: int, *, abi: int, specific: bool = False, command_line: str | None = None, machine: int = 190
) -> bytes:
    flags = (number << 8 | (0x8 if specific else 0)) if abi >= 8 else (number << 16 | 0x500 | number)
    if abi < 8 and specific:
        flags |= 0x800
    note = b"" if command_line is None else b"NVIDIA Corp\0" + bytes(24) + b"\0ptxas\0" + command_line.encode() + b" \0"
    head = b"\x7fELF\x02\x01\x01\x33" + bytes([abi]) + bytes(7)
    head += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 64 + len(note), flags, 64, 0, 0, 64, 1, 0)
    return head + note + bytes(64)


KIND_NUMBERS = {Kind.PTX: (1,), Kind.SASS: (2, 16), Kind.LTO: (8,), Kind.OTHER: (4, 32, 64)}
FEATURE_FLAGS = {"": 0, "a": 0x100000, "f": 0x200000}
OTHER_FLAGS = (0x11, 0x2011, 0x8011, 0x1000011, 0x1008011)
"""64-bit, Linux; LZ4; Zstandard; the bit of sm_100 and later, plain and compressed: all seen in real wheels."""


@dataclass(frozen=True)
class Entry:
    """One entry as a compiler writes it."""

    code: Code
    kind_number: int
    flags: int = 0x11
    header_size: int = 64
    payload: bytes = b""

    def pack(self) -> bytes:
        padded = self.payload.ljust(-(-len(self.payload) // 8) * 8, b"\0")
        flags = self.flags | FEATURE_FLAGS[self.code.architecture.feature]
        number = self.code.architecture.number
        header = struct.pack("<HHIQIIHHIIIQQQ", self.kind_number, 0x101, self.header_size, len(padded), 0, 0, 8, 1,
                             number, 0, 0, flags, 0, len(padded))  # fmt: skip
        return header.ljust(self.header_size, b"\0") + padded


def fatbin(entries: list[Entry]) -> bytes:
    body = b"".join(entry.pack() for entry in entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def entry(name: str, payload: bytes = b"payload") -> Entry:
    """`sm_90a`, `compute_90` or `lto_90` as an entry."""
    prefix, _, rest = name.partition("_")
    kind = {"sm": Kind.SASS, "compute": Kind.PTX, "lto": Kind.LTO}[prefix]
    feature = rest[-1] if rest[-1] in "af" else ""
    code = Code(kind, Architecture(int(rest.removesuffix(feature)), feature))
    return Entry(code, KIND_NUMBERS[kind][0], payload=payload)
