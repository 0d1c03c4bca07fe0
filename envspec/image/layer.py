"""A layer: entries as a tar, in order, with the same owners and times whoever packs it, packed as it is written."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, BinaryIO

from envspec.base.errors import ToolError
from envspec.image.beside import beside, join_pieces
from envspec.image.compress import compressor, media_type

FILE = 0o644
PROGRAM = 0o755
"""The modes of files, whatever the umask of who packed them: root's, and readable by everyone."""

Open = Callable[[], IO[bytes]]


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """path   below the image's root, without a slash at its begin or end
    size     of a file, in bytes
    content  gives a file's bytes from its begin; None for a folder or a link
    link     what a symbolic link names
    owner    number of the user and of its group
    """

    path: str
    size: int = 0
    content: Open | None = None
    link: str | None = None
    mode: int = FILE
    owner: int = 0

    @property
    def is_folder(self) -> bool:
        return self.content is None and self.link is None


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
    found = {entry.path: entry for entry in entries}
    for path in list(found):
        parts = path.split("/")
        for count in range(2, len(parts)):
            above = "/".join(parts[:count])
            if above not in found:
                found[above] = folder_entry(above)
    for path in sorted(found, key=lambda path: path.encode("utf-8", "surrogateescape").split(b"/")):
        yield found[path]


_PIECE = 1 << 20
_BLOCK = tarfile.BLOCKSIZE
_NAME = tarfile.LENGTH_NAME
_PLAIN_SIZE = 8**11 - 1
_SIZE_OF_NONE = sum(b"0" * 11)
"""Where a tar's head has a name, a size and their checksum: POSIX.1, pax, "ustar Interchange Format"."""

OnBytes = Callable[[int], None]


@dataclass(frozen=True)
class Descriptor:
    """A blob as manifests name it: its media type, its digest ("sha256:…") and its size in bytes."""

    media_type: str
    digest: str
    size: int

    def document(self) -> dict[str, str | int]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class LayerPlan:
    """A layer before it is packed.

    name     what it holds, "system", one of `envspec.image.layers.PACKAGES`, "project" or "carried"
    key      the digest of what it is made from: layers with one key have one content
    entries  gives what is in it; called once
    """

    name: str
    key: str
    entries: Callable[[], Iterable[LayerEntry]]


@dataclass(frozen=True)
class PackedLayer:
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
    """Write a layer, packed by one of `compress.KINDS`. `on_bytes` is told of what was packed. Raises ToolError,
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
    """Give the head of a file without a name and of no bytes, and what its checksum says."""
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
        raise ToolError(
            f"{entry.path} has {entry.size - left} bytes instead of {entry.size}",
            hint="check whether another program writes to envspec's cache, then run again",
        )
    if entry.size % _BLOCK:
        yield bytes(_BLOCK - entry.size % _BLOCK)
