"""A layer: entries as a tar, in order, with the same owners and times whoever packs it, packed as it is written."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from queue import Queue
from typing import IO, BinaryIO, Protocol, cast

from msgspec import Struct

from envspec.base.errors import ToolError
from envspec.packages.own_extras import require_extra

# The compressors of layers: zstd and gzip, both from wheels that bring their library along, so that one version of the
# wheel gives the same bytes under every Python.


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


# Work on a stream in threads of its own, so that reading, hashing and packing each have a processor.


_JOINED = 1 << 20
_AHEAD = 8
"""Pieces that may wait: they are what the memory has of a layer."""


def join_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces: handing one over takes as long as hashing a few KB."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _JOINED:
            yield held[0] if len(held) == 1 else b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


@contextmanager
def beside(work: Callable[[bytes], object]) -> Iterator[Callable[[bytes], None]]:
    """Do `work` with each piece that the block hands over, in their order, in a thread; all of it is done at the end of
    the block. What it raises, the next piece or the end does."""
    pieces: Queue[bytes | None] = Queue(_AHEAD)
    failed: list[BaseException] = []

    def run() -> None:
        while (piece := pieces.get()) is not None:
            try:
                if not failed:
                    work(piece)
            except Exception as error:  # noqa: BLE001
                failed.append(error)

    def hand(piece: bytes) -> None:
        if failed:
            raise failed[0]
        pieces.put(piece)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield hand
    finally:
        pieces.put(None)
        thread.join()
    if failed:
        raise failed[0]


FILE = 0o644
PROGRAM = 0o755
"""The modes of files, whatever the umask of who packed them: root's, and readable by everyone."""

Open = Callable[[], IO[bytes]]


class LayerEntry(Struct, frozen=True):
    """path   below the image's root, without a slash at its begin or end
    size     of a file, in bytes
    content  gives a file's bytes from its begin; None for a folder, a link or a gap
    link     what a symbolic link names
    owner    number of the user and of its group
    gap      nothing is there, whatever lies below: overlayfs' own whiteout, a device 0/0
    """

    path: str
    size: int = 0
    content: Open | None = None
    link: str | None = None
    mode: int = FILE
    owner: int = 0
    gap: bool = False

    @property
    def is_folder(self) -> bool:
        return self.content is None and self.link is None and not self.gap


def text_entry(path: str, text: str | bytes, mode: int = FILE, owner: int = 0) -> LayerEntry:
    """Make the entry of a small file."""
    content = text.encode() if isinstance(text, str) else text
    return LayerEntry(path, len(content), lambda: io.BytesIO(content), mode=mode, owner=owner)


def folder_entry(path: str, mode: int = PROGRAM, owner: int = 0) -> LayerEntry:
    """Make the entry of a folder."""
    return LayerEntry(path, mode=mode, owner=owner)


def link_entry(path: str, link: str) -> LayerEntry:
    """Make the entry of a symbolic link."""
    return LayerEntry(path, link=link, mode=0o777)


def in_order(entries: Iterable[LayerEntry]) -> Iterator[LayerEntry]:
    """Sort entries, each below its folders, which are added: all but the root's own, which bases have their own modes
    for. Of two entries with one path the later one counts, as where installers write one file after another.
    """
    by_path = {entry.path: entry for entry in entries}
    for path in list(by_path):
        parts = path.split("/")
        for count in range(2, len(parts)):
            parent = "/".join(parts[:count])
            if parent not in by_path:
                by_path[parent] = folder_entry(parent)
    for path in sorted(by_path, key=lambda path: path.encode("utf-8", "surrogateescape").split(b"/")):
        yield by_path[path]


_PIECE = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_NAME = tarfile.LENGTH_NAME
_PLAIN_SIZE = 8**11 - 1
_SIZE_OF_NONE = sum(b"0" * 11)
"""The places of a name, a size and their checksum in a tar's head: POSIX.1, pax, "ustar Interchange Format"."""

OnBytes = Callable[[int], None]


class Descriptor(Struct, frozen=True):
    """A blob as manifests name it: its media type, its digest ("sha256:…") and its size in bytes."""

    media_type: str
    digest: str
    size: int

    def document(self) -> dict[str, str | int]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


class LayerPlan(Struct, frozen=True):
    """A layer before it is packed.

    name     what it holds, "system", one of `envspec.image.layers.PACKAGES`, "project" or "carried"
    key      the digest of what it is made from: layers with one key have one content
    entries  gives what is in it; called once
    """

    name: str
    key: str
    entries: Callable[[], Iterable[LayerEntry]]


class PackedLayer(Struct, frozen=True):
    """A layer that was packed. `diff_id` is the digest of the tar itself, whatever packed it."""

    name: str
    key: str
    blob: Descriptor
    diff_id: str


def tar_pieces(entries: Iterable[LayerEntry], epoch: int) -> Iterator[bytes]:
    """Give the tar of entries, in pieces: sorted, with `epoch` as the time of all. Raises ToolError for a file that
    isn't of its size."""
    for entry in in_order(entries):
        yield _head(entry, epoch)
        if entry.content is not None:
            yield from _content(entry)
    # two empty blocks end a tar (pax of POSIX.1)
    yield bytes(2 * _BLOCK)


def pack(plan: LayerPlan, out: BinaryIO, kind: str, epoch: int, on_bytes: OnBytes = lambda count: None) -> PackedLayer:
    """Write a layer, packed by one of `compress.KINDS`. `on_bytes` gets the number of bytes packed. Raises ToolError,
    OSError."""
    stream = compressor(kind)
    plain, packed = hashlib.sha256(), _Hashed(out)
    with beside(plain.update) as hashed, beside(lambda piece: packed.write(stream.compress(piece))) as written:
        for piece in join_pieces(tar_pieces(plan.entries(), epoch)):
            hashed(piece)
            written(piece)
            on_bytes(len(piece))
    packed.write(stream.flush())
    blob = Descriptor(media_type(kind), packed.digest, packed.size)
    return PackedLayer(plan.name, plan.key, blob, f"sha256:{plain.hexdigest()}")


def diff_id(plan: LayerPlan, epoch: int, on_bytes: OnBytes = lambda count: None) -> str:
    """Give the digest of a layer's tar, and write it nowhere."""
    plain = hashlib.sha256()
    with beside(plain.update) as hashed:
        for piece in join_pieces(tar_pieces(plan.entries(), epoch)):
            hashed(piece)
            on_bytes(len(piece))
    return f"sha256:{plain.hexdigest()}"


class _Hashed:
    def __init__(self, out: BinaryIO) -> None:
        self._out, self._hash, self.size = out, hashlib.sha256(), 0

    def write(self, piece: bytes) -> None:
        self._out.write(piece)
        self._hash.update(piece)
        self.size += len(piece)

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"


def _head(entry: LayerEntry, epoch: int) -> bytes:
    name = entry.path.encode("utf-8", "surrogateescape")
    if entry.content is None or len(name) > _NAME or not entry.path.isascii() or entry.size > _PLAIN_SIZE:
        return _head_of_any(entry, epoch)
    # tarfile makes ten thousand heads a second, and environments have several times as many files
    empty, total = _empty_head(entry.mode, entry.owner, epoch)
    size = b"%011o" % entry.size
    checksum = b"%06o" % (total + sum(name) + sum(size) - _SIZE_OF_NONE)
    head = bytearray(empty)
    head[: len(name)] = name
    head[124:135], head[148:154] = size, checksum
    return bytes(head)


@lru_cache
def _empty_head(mode: int, owner: int, epoch: int) -> tuple[bytes, int]:
    """Give the head of a file without a name and of no bytes, and the value of its checksum."""
    head = _head_of_any(LayerEntry("", content=io.BytesIO, mode=mode, owner=owner), epoch)
    return head, int(head[148:154], 8)


def _head_of_any(entry: LayerEntry, epoch: int) -> bytes:
    info = tarfile.TarInfo(entry.path)
    info.mode, info.mtime = entry.mode, epoch
    info.uid = info.gid = entry.owner
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    elif entry.is_folder:
        info.type = tarfile.DIRTYPE
    elif entry.gap:
        info.type = tarfile.CHRTYPE
    else:
        info.size = entry.size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _content(entry: LayerEntry) -> Iterator[bytes]:
    assert entry.content is not None
    left = entry.size
    with entry.content() as file:
        while piece := file.read(_PIECE):
            left -= len(piece)
            yield piece
    if left:
        hint = "check whether another program writes to envspec's cache, then run again"
        raise ToolError(f"{entry.path} has {entry.size - left} bytes instead of {entry.size}", hint=hint)
    if entry.size % _BLOCK:
        yield bytes(_BLOCK - entry.size % _BLOCK)
