"""HIP code: what clang compiles for AMD's GPUs, as it stands in libraries.

    bundle       "__CLANG_OFFLOAD_BUNDLE__", u64 number of entries; each entry: u64 offset, u64 size, u64 length of its
                 triple, the triple ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+")
    compressed   "CCOB", u16 version 1 to 3, u16 method (0: zlib, 1: Zstandard), sizes and a hash, then the stream
    code object  an ELF file whose e_machine is 224, EM_AMDGPU

Numbers are little-endian. Source: LLVM's documentation of the Clang offload bundler and `llvm/BinaryFormat/ELF.h`;
checked on the wheels of bitsandbytes 0.50.2, jax-rocm7-plugin 0.12.0 and cupy-rocm-7-0 14.0.1 on PyPI.
"""

from __future__ import annotations

import re
import struct
import zlib

from envspec.binaries.window import Window

BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = b"CCOB"
EM_AMDGPU = 224

_STREAMS = {0: b"x", 1: b"\x28\xb5\x2f\xfd"}
"""The first bytes of a stream, by its method."""
_HEADERS = {1: 20, 2: 24, 3: 32}
"""Bytes of a compressed bundle's header, by its version."""
_TRIPLE = re.compile(r"[a-z0-9]+-(?:amdgcn|spirv64)-amd-amdhsa-[^-]*-(?P<gpu>[\w-]+)")
_MOST = 1 << 16
"""Bytes of a bundle's head, and of a compressed one's that are unpacked for it."""


def read_bundle(window: Window) -> frozenset[str] | None:
    """Read the bundle at the window's position and move past its magic: the GPUs that it has code for ("gfx90a"). None
    for one without any, and where the magic stood in other data, as in clang itself."""
    gpus = _gpus(window.peek(_MOST))
    window.skip(len(BUNDLE))
    return gpus or None


def read_compressed_bundle(window: Window) -> frozenset[str] | None:
    """Read the compressed bundle at the window's position and move past its magic. A stream of Zstandard is known by
    its head, and its GPUs aren't: they are an empty set. None where the magic stood in other data."""
    head = window.peek(_MOST)
    window.skip(len(COMPRESSED))
    if len(head) < _HEADERS[3]:
        return None
    version, method = struct.unpack_from("<HH", head, len(COMPRESSED))
    size = _HEADERS.get(version)
    if size is None or method not in _STREAMS or not head.startswith(_STREAMS[method], size):
        return None
    if method == 1:
        return frozenset()
    try:
        return _gpus(zlib.decompressobj().decompress(head[size:], _MOST)) or None
    except zlib.error:
        return None


def is_code_object(head: bytes) -> bool:
    """Return whether an ELF file is code for AMD's GPUs, by its first 20 bytes."""
    return len(head) >= 20 and struct.unpack_from("<H", head, 18) == (EM_AMDGPU,)


def _gpus(head: bytes) -> frozenset[str]:
    if not head.startswith(BUNDLE) or len(head) < len(BUNDLE) + 8:
        return frozenset()
    (count,) = struct.unpack_from("<Q", head, len(BUNDLE))
    at, gpus = len(BUNDLE) + 8, set[str]()
    for _ in range(min(count, 1000)):
        _, size, length = struct.unpack_from("<QQQ", head, at) if at + 24 <= len(head) else (0, 0, 0)
        triple = head[at + 24 : at + 24 + length]
        if length > 255 or len(triple) < length:
            break
        if match := _TRIPLE.match(triple.decode("ascii", "replace")):
            gpus |= {match["gpu"]} if size else set()
        elif not re.fullmatch(rb"[\w.+:-]+", triple):
            break
        at += 24 + length
    return frozenset(gpus)
