"""A layer that others made, as a stream: its entries within limits, its content against both its digests. Nothing is
unpacked to a disk."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Callable, Container
from typing import IO, BinaryIO

from envspec.base.errors import InputError
from envspec.image.layer import Descriptor, unpack
from envspec.image.manifest import compression_of
from envspec.net.limits import LIMITS
from envspec.packages.archive_entries import Bounds, TarMember

_PIECE = 1 << 18
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_HINT = "choose another base image, or find out who made this one"
_WHEELS = 5
"""The greatest number of entries of a system, as a multiple of the largest wheel's."""

Look = Callable[[tarfile.TarFile, tarfile.TarInfo, str], None]
"""Takes the layer, one of its entries, and that one's path below the root."""


def most_entries() -> int:
    """Give the most entries of a layer, or of another archive that a whole system is in."""
    return LIMITS.archive_entries * _WHEELS


def read_layer(layer: Descriptor, diff_id: str, file: BinaryIO, look: Look, where: str) -> set[str]:
    """Hand each entry of a layer to `look`, in the layer's order. Returns the paths that the layer removes from the
    layers below it, each with everything under it; an empty path is the root.

    Raises InputError for a layer that isn't what its digests say, or holds more than one may hold; OSError.
    """
    if (size := file.seek(0, os.SEEK_END)) != layer.size:
        # the limit of what it unpacks to goes by it
        raise InputError(
            f"{where}: the layer {layer.digest} has {size} bytes, and its image says {layer.size}", hint=_HINT
        )
    file.seek(0)
    stream = _Unpacked(file, layer)
    most = most_entries()
    removed = set[str]()
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_PIECE, errorlevel=1, tarinfo=TarMember) as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive, 1):
                if count > most:
                    raise Refused(f"it has more than {most} entries")
                path = "/".join(part for part in member.name.split("/") if part not in ("", "."))
                parent, _, name = path.rpartition("/")
                if ".." in path.split("/"):
                    raise Refused(f"the entry {member.name!r} leads out of the image")
                if name == _OPAQUE:
                    removed.add(parent)
                elif name.startswith(_WHITEOUT):
                    removed.add(f"{parent}/{name.removeprefix(_WHITEOUT)}".lstrip("/"))
                else:
                    look(archive, member, path)
                # the reader keeps every head that it saw
                archive.members = []
        stream.to_the_end()
    except (tarfile.TarError, EOFError, ValueError, Refused) as error:
        raise InputError(f"{where}: the layer {layer.digest} can't be read: {error}", hint=_HINT) from None
    if stream.packed_digest != layer.digest or stream.digest != diff_id:
        digest = layer.digest if stream.packed_digest != layer.digest else diff_id
        raise InputError(f"{where}: a layer's content isn't that of {digest}", hint=_HINT)
    return removed


def is_gone(path: str, removed: Container[str]) -> bool:
    """Return whether a path, or a folder that it is in, is among those that a layer takes away."""
    parts = path.split("/")
    return "" in removed or any("/".join(parts[:count]) in removed for count in range(1, len(parts) + 1))


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it; an empty one is the root."""
    return not folder or path == folder or path.startswith(f"{folder}/")


class Refused(Exception):
    """A layer holds what none may."""


class _Unpacked:
    """A layer's tar as a stream, with the digests of both its forms, no longer than it may be."""

    def __init__(self, file: IO[bytes], layer: Descriptor) -> None:
        self._packed = _Hashed(file)
        self._file = unpack(compression_of(layer), self._packed)  # type: ignore[arg-type]
        # of a plain tar both are one, and hashed twice
        self._plain = _Hashed(self._file)
        bounds = Bounds(LIMITS.archive_entries, LIMITS.unpacked_bytes, LIMITS.unpacked_ratio)
        self._most = bounds.bytes_of(layer.size)

    def read(self, size: int) -> bytes:
        try:
            piece = self._plain.read(size)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Refused(f"it can't be unpacked: {error}") from None
        except Exception as error:
            if type(error).__name__ != "ZstdError":
                raise
            raise Refused(f"it can't be unpacked: {error}") from None
        if self._plain.length > self._most:
            raise Refused(f"it unpacks to more than {self._most >> 20} MiB, the most for its size")
        return piece

    def to_the_end(self) -> None:
        while self.read(_PIECE):
            pass
        while self._packed.read(_PIECE):
            pass

    @property
    def digest(self) -> str:
        return self._plain.digest

    @property
    def packed_digest(self) -> str:
        return self._packed.digest


class _Hashed:
    """A file's bytes as they are read, hashed and counted."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash, self.length = file, hashlib.sha256(), 0

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._hash.update(piece)
        self.length += len(piece)
        return piece

    @property
    def digest(self) -> str:
        return f"sha256:{self._hash.hexdigest()}"
