"""Bundles of HIP code as clang writes their heads, plain and compressed, with no code that runs."""

import struct
import zlib

HOST = "host-x86_64-unknown-linux-gnu-"
ZSTANDARD = b"\x28\xb5\x2f\xfd"


def bundle(*gpus: str, payload: bytes = b"code", triples: tuple[str, ...] = ()) -> bytes:
    """A bundle of the host's empty entry and one for each GPU, or of the `triples` given."""
    entries = [(HOST, b""), *((one, payload) for one in triples or (f"hipv4-amdgcn-amd-amdhsa--{one}" for one in gpus))]
    size = 32 + sum(24 + len(triple) for triple, _ in entries)
    head, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)), b""
    for triple, code in entries:
        head += struct.pack("<QQQ", size + len(body), len(code), len(triple)) + triple.encode()
        body += code
    return head + body


def compressed(content: bytes, *, version: int = 2, zstandard: bool = False) -> bytes:
    """A compressed bundle; of one in Zstandard only the head of its stream is real."""
    packed = ZSTANDARD + bytes(64) if zstandard else zlib.compress(content)
    head = b"CCOB" + struct.pack("<HH", version, 1 if zstandard else 0)
    sizes = {1: "<I", 2: "<II", 3: "<QQ"}[version]
    values = (len(packed) + 32, len(content)) if version > 1 else (len(content),)
    return head + struct.pack(sizes, *values) + bytes(8) + packed


def code_object() -> bytes:
    """The head of an ELF file for AMD's GPUs (e_machine 224), as it lies in plain bundles and .hsaco files."""
    return b"\x7fELF\x02\x01\x01\x40" + bytes(8) + struct.pack("<HHI", 3, 224, 1) + bytes(100)
