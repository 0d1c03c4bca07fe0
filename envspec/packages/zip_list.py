"""A zip whose list of entries is cut down to the few that are wanted, before `zipfile` makes an object of each: the
list of a large wheel has ten thousand, of which one is its METADATA."""

from __future__ import annotations

import io
import struct
from typing import IO, cast

from envspec.packages.anywhere import ReadAnywhere

_END = struct.Struct("<4s4H2IH")
"""The end of a zip without a comment (APPNOTE.TXT 4.3.16)."""
_HEAD = 46
"""Bytes of an entry in the list, before its name (4.3.12)."""


def with_names_like(part: bytes, file: IO[bytes]) -> IO[bytes]:
    """Give a zip with those entries alone whose names contain `part`. Gives the file itself where its end isn't that of
    a plain zip, or its list isn't whole: `zipfile` says what is wrong. Raises what reading the file raises."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _END.size))
    end = file.read(_END.size)
    if len(end) < _END.size:
        return file
    sign, disk, first, here, count, length, start, comment = _END.unpack(end)
    # one with eight-byte sizes has more between its list and its end
    if (sign, disk, first, comment) != (b"PK\5\6", 0, 0, 0) or here != count or start + length + _END.size != size:
        return file
    file.seek(start)
    entries = _entries(file.read(length), count)
    if entries is None:
        return file
    kept = [entry for entry, name in entries if part in name]
    listed = b"".join(kept)
    end = _END.pack(sign, 0, 0, len(kept), len(kept), len(listed), start, 0)
    return cast("IO[bytes]", _Cut(file, start, listed + end))


def _entries(listed: bytes, count: int) -> list[tuple[bytes, bytes]] | None:
    """Split a list into its entries, each with its name; None for one that isn't whole."""
    found, at = [], 0
    for _ in range(count):
        if listed[at : at + 4] != b"PK\1\2" or len(listed) < at + _HEAD:
            return None
        name, extra, comment = struct.unpack_from("<3H", listed, at + 28)
        behind = at + _HEAD + name + extra + comment
        found.append((listed[at:behind], listed[at + _HEAD : at + _HEAD + name]))
        at = behind
    return found if at == len(listed) else None


class _Cut(ReadAnywhere):
    """A file up to a place, and other bytes behind it."""

    def __init__(self, file: IO[bytes], place: int, behind: bytes) -> None:
        super().__init__(place + len(behind))
        self._file, self._place, self._behind = file, place, behind

    def read(self, size: int = -1) -> bytes:
        end = self.total if size is None or size < 0 else self._at + size
        piece = b""
        if self._at < self._place:
            self._file.seek(self._at)
            piece = self._file.read(min(end, self._place) - self._at)
        if end > self._place and self._at + len(piece) >= self._place:
            piece += self._behind[self._at + len(piece) - self._place : end - self._place]
        self._at += len(piece)
        return piece
