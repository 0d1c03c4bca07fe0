"""Cubins as ptxas writes their heads: of any architecture, and with no code."""

from __future__ import annotations

import struct


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
