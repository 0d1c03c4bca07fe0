"""The body of an answer, within limits on its size, its unpacked size and its time. urllib3's time-out begins anew with
each byte, and it unpacks whatever comes."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from envspec.base.errors import IndexFailure
from envspec.net.limits import Limits

if TYPE_CHECKING:
    import urllib3

    from envspec.net.transport import Deadline

_PIECE = 1 << 18
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""zlib's window bits for each accepted content coding."""


class TooMuch(Exception):
    """A body is longer than its limit."""


class TooLarge(IndexFailure):
    """A file is larger than its reader accepts as a whole."""


@dataclass
class Pace:
    """A stopwatch that gives up a peer slower than the limits.

    url    for the message, without credentials
    whole  the whole body has to arrive within `whole_seconds`
    clock  seconds
    came   is told of the bytes as they come
    deadline  of the request; without `whole`, each byte that comes puts it off as far as the least rate allows
    """

    url: str
    limits: Limits
    deadline: Deadline | None = None
    whole: bool = False
    clock: Callable[[], float] = time.monotonic
    came: Callable[[int], None] = lambda count: None
    _begun: float = field(init=False)
    _received: int = 0

    def __post_init__(self) -> None:
        self._begun = self.clock()
        self._put_off()

    def add(self, count: int) -> None:
        """Count the bytes received so far. Raises IndexFailure for a peer that is too slow."""
        self._received += count
        self.came(count)
        passed = self.clock() - self._begun
        if passed > self.limits.first_seconds and self._received < passed * self.limits.bytes_per_second:
            raise too_slow(self.url, passed, self._received)
        if self.whole and passed > self.limits.whole_seconds:
            raise too_slow(self.url, passed, self._received)
        self._put_off()

    def _put_off(self) -> None:
        if self.deadline is not None and not self.whole:
            enough = max(self.limits.first_seconds, self._received / self.limits.bytes_per_second)
            self.deadline.ends = self._begun + enough

    def judge_end(self) -> None:
        """Raise IndexFailure where the deadline cut the connection, which reads as an end or as a fault of the peer."""
        if self.deadline is not None and self.deadline.cut:
            raise too_slow(self.url, time.monotonic() - self.deadline.begun, self._received)


def too_slow(url: str, seconds: float, received: int) -> IndexFailure:
    return IndexFailure(
        f"{url} is too slow: {received} bytes came in {seconds:.0f} s",
        hint="try again, or use a mirror; some servers hold connections open on purpose",
    )


def pieces(response: urllib3.response.BaseHTTPResponse, pace: Pace) -> Iterator[bytes]:
    """Yield a body as it comes, still packed. Raises IndexFailure for a slow peer, and urllib3's HTTPError."""
    while True:
        try:
            piece: bytes = response.read1(_PIECE, decode_content=False)
        except Exception:
            pace.judge_end()
            raise
        pace.judge_end()
        pace.add(len(piece))
        if not piece:
            return
        yield piece


def read_whole(response: urllib3.response.BaseHTTPResponse, most: int, pace: Pace) -> bytes:
    """Yield a body, unpacked. Raises TooMuch beyond `most` bytes, IndexFailure for a slow peer or a coding that envspec
    didn't ask for, and urllib3's HTTPError."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    body = bytearray()
    try:
        unpack = _plain if coding in ("", "identity") else _unpacker(coding, pace.url)
        for piece in pieces(response, pace):
            body += unpack(piece, most + 1 - len(body))
            if len(body) > most:
                raise TooMuch
    except BaseException:
        # what is left of it on the wire would be taken for the next answer
        response.close()
        raise
    return bytes(body)


def _plain(piece: bytes, most: int) -> bytes:
    return piece


def _unpacker(coding: str, url: str) -> Callable[[bytes, int], bytes]:
    if coding not in _WINDOWS:
        hint = "report this to whoever runs the server: envspec asks for gzip or no encoding"
        raise IndexFailure(f"{url} has a content encoding that envspec didn't ask for: {coding[:40]!r}", hint=hint)
    stream: Any = zlib.decompressobj(_WINDOWS[coding])

    def unpack(piece: bytes, most: int) -> bytes:
        try:
            # what is more than the limit stays packed
            return bytes(stream.decompress(piece, max(1, most)))
        except zlib.error as error:
            raise IndexFailure(
                f"{url} isn't valid {coding}: {error}", hint="check which server answers at this address"
            ) from None

    return unpack
