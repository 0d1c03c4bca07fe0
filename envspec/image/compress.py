"""The compressors of layers: zstd and gzip, both from wheels that bring their library along, so that one version of the
wheel gives the same bytes under every Python."""

from __future__ import annotations

import gzip
import os
from typing import IO, Protocol, cast

from envspec.base.extras import require_extra

KINDS = ("zstd", "gzip")
_LEVELS = {"zstd": 3, "gzip": 6}
_MOST_THREADS = 4
_JOB = 2 << 20
"""Bytes that a thread of zstd packs at a time. Each thread holds several of them, so it bounds the memory; another size
gives other bytes."""
_MEDIA = {kind: f"application/vnd.oci.image.layer.v1.tar+{kind}" for kind in KINDS}


class Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes:
        """Take more, and give what is packed by now."""

    def flush(self) -> bytes:
        """Give the rest."""


def media_type(kind: str) -> str:
    """Give the media type of a layer that is packed so. Source: OCI's image-spec, layer.md."""
    return _MEDIA[kind]


def compressor(kind: str) -> Compressor:
    """Make a compressor of one of `KINDS`, for one layer. Raises ToolError without envspec's extra `image`."""
    require_extra("image", "images need")
    return _zstd() if kind == "zstd" else _gzip()


def unpack(kind: str, file: IO[bytes]) -> IO[bytes]:
    """Give what a layer unpacks to, as a stream that unpacks no more than it is asked for; `kind` is one of `KINDS`,
    or "" for one that isn't packed. Raises ToolError; what isn't packed so raises OSError, EOFError, ValueError or
    zlib.error where it is read."""
    if kind == "":
        return file
    if kind == "gzip":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    require_extra("image", "images need")
    import zstandard

    # a window of 128 MB, which `zstd --ultra` asks for, is the most
    made = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file, read_across_frames=True)
    return made


def _zstd() -> Compressor:
    import zstandard

    # Never without threads: one thread or more give the same bytes, and none gives others.
    threads = max(1, min(os.cpu_count() or 1, _MOST_THREADS))
    settings = zstandard.ZstdCompressionParameters.from_level(
        _LEVELS["zstd"], threads=threads, job_size=_JOB, write_checksum=True
    )
    made: Compressor = zstandard.ZstdCompressor(compression_params=settings).compressobj()
    return made


def _gzip() -> Compressor:
    from zlib_ng import zlib_ng

    # 31: gzip's own head, without a time and a name
    made: Compressor = zlib_ng.compressobj(_LEVELS["gzip"], zlib_ng.DEFLATED, 31)
    return made
