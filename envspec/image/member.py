"""A member of a wheel as a stream, inflated by zlib-ng: what inflates takes as long as all digests of a layer."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Protocol, cast

from envspec.base.errors import ToolError

_HEAD = struct.Struct("<4s22xHH")
"""A local file header: its mark, 22 bytes that the directory has too, the lengths of the name and of what is added.
Source: PKWARE's APPNOTE, 4.3.7."""
_MARK = b"PK\3\4"
_PIECE = 1 << 18


class _Stream(Protocol):
    eof: bool
    unconsumed_tail: bytes

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class WheelMember:
    """Opens a member of a wheel. Each opening reads the file by itself, so that no two share a place in it.

    name    of the member
    kind    how it is packed, as zipfile numbers it
    offset  of its header in the file
    packed  its bytes there
    crc     the checksum of its content
    """

    path: Path
    name: str
    kind: int
    offset: int
    packed: int
    crc: int

    @staticmethod
    def of(path: Path, info: zipfile.ZipInfo) -> WheelMember:
        """Take of a directory's row what reading needs: a layer has tens of thousands of them."""
        return WheelMember(path, info.filename, info.compress_type, info.header_offset, info.compress_size, info.CRC)

    def __call__(self) -> IO[bytes]:
        if self.kind not in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            return zipfile.ZipFile(self.path).open(self.name)
        file = self.path.open("rb", buffering=0)
        file.seek(self.offset)
        mark, name, more = _HEAD.unpack(file.read(_HEAD.size))
        assert mark == _MARK, self.path
        file.seek(name + more, os.SEEK_CUR)
        return cast("IO[bytes]", _Content(file, self))


class _Content:
    """A member's content, with its checksum."""

    def __init__(self, file: IO[bytes], member: WheelMember) -> None:
        from zlib_ng import zlib_ng

        self._file, self._member, self._left = file, member, member.packed
        self._stream = zlib_ng.decompressobj(-zlib.MAX_WBITS) if member.kind == zipfile.ZIP_DEFLATED else None
        self._sum, self._checksum = 0, zlib_ng.crc32

    def __enter__(self) -> _Content:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        """Give up to so many bytes, none at the end; all of them without a size. Raises ToolError for what isn't
        deflated, and where the checksum is another one."""
        if size < 0:
            return b"".join(iter(partial(self.read, _PIECE), b""))
        try:
            piece = self._inflate(self._stream, size) if self._stream else self._read_piece(size)
        except Exception as error:
            # zlib-ng's own, a class of no type that is known
            if type(error).__name__ != "error":
                raise
            raise self._read_error(str(error)) from None
        self._sum = self._checksum(piece, self._sum)
        if not piece and self._sum != self._member.crc:
            raise self._read_error("it has another checksum")
        return piece

    def _inflate(self, stream: _Stream, size: int) -> bytes:
        piece = b""
        while not piece and not stream.eof:
            packed = stream.unconsumed_tail or self._read_piece(_PIECE)
            piece = stream.decompress(packed, size)
            if not packed and not piece:
                break
        return piece

    def _read_piece(self, size: int) -> bytes:
        found = self._file.read(min(size, self._left))
        self._left -= len(found)
        return found

    def _read_error(self, what: str) -> ToolError:
        return ToolError(
            f"{self._member.name} of {self._member.path.name} can't be read: {what}",
            hint="check whether another program writes to envspec's cache, then run again",
        )
