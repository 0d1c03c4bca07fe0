"""A forward window over a byte stream: look ahead, skip, search; memory stays at one chunk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

STREAM_CHUNK = 1 << 20
SEEK_CHUNK = 1 << 16
"""Bytes of a chunk where seeking is cheap: most seeks read only the 64 bytes of a header."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


class Window:
    """A reader of `stream` from its start to its end, once.

    `can_seek` says that skipping by `seek` is cheap (a file on disk, not a compressed member). For progress, the
    window calls `passed` with the number of bytes read or skipped. Errors of the stream pass through.
    """

    def __init__(self, stream: Readable, *, can_seek: bool, passed: Callable[[int], None] | None = None) -> None:
        self._stream = stream
        self._passed = passed
        self._buffer = b""
        self._at = 0
        self._hits: dict[bytes, int] = {}
        self._chunk = SEEK_CHUNK if can_seek else STREAM_CHUNK
        self._end: int | None = None
        self._offset = 0
        if can_seek:
            self._end = stream.seek(0, os.SEEK_END)
            stream.seek(0)

    def peek(self, size: int) -> bytes:
        """Look at the next `size` bytes, fewer at the end of the stream, without moving."""
        while len(self._buffer) - self._at < size and self._fill():
            pass
        return self._buffer[self._at : self._at + size]

    def skip(self, size: int) -> int:
        """Move on by `size` bytes; returns how many there were."""
        buffered = len(self._buffer) - self._at
        if size <= buffered:
            self._at += size
            return size
        self._forget()
        left = size - buffered
        if self._end is not None:
            step = min(left, self._end - self._offset)
            self._stream.seek(step, os.SEEK_CUR)
            self._advance(step)
            return buffered + step
        while left and self._fill():
            self._at = min(left, len(self._buffer))
            left -= self._at
        return size - left

    def search(self, needles: Sequence[bytes]) -> bytes | None:
        """Move to the nearest occurrence of a needle and return that needle; None at the end of the stream."""
        overlap = max(map(len, needles)) - 1
        while True:
            hits = [(hit, needle) for needle in needles if (hit := self._hit(needle)) >= 0]
            if hits:
                self._at, needle = min(hits)
                return needle
            self._at = max(self._at, len(self._buffer) - overlap)
            if not self._fill():
                return None

    def _hit(self, needle: bytes) -> int:
        # Remembered, or a buffer full of one needle would be searched again for the other after every hit.
        known = self._hits.get(needle)
        if known is None or 0 <= known < self._at:
            known = self._hits[needle] = self._buffer.find(needle, self._at)
        return known

    def _fill(self) -> bool:
        chunk = self._stream.read(self._chunk)
        if not chunk:
            return False
        rest = self._buffer[self._at :]
        self._forget()
        self._buffer = rest + chunk
        self._advance(len(chunk))
        return True

    def _forget(self) -> None:
        self._buffer = b""
        self._at = 0
        self._hits.clear()

    def _advance(self, size: int) -> None:
        self._offset += size
        if self._passed is not None:
            self._passed(size)
