"""Work on a stream in threads of its own, so that reading, hashing and packing each have a processor."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import Queue

_PIECE = 1 << 20
_AHEAD = 8
"""Pieces that may wait: they are what the memory has of a layer."""


def join_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces: handing one over takes as long as hashing a few KB."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _PIECE:
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
