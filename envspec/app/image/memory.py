"""What an image takes of memory, whatever its size."""

from __future__ import annotations

from contextlib import suppress

_ARENA_MAX = -8
"""M_ARENA_MAX of glibc's malloc.h."""
_ARENAS = 2


def share_arenas() -> None:
    """Let all threads take memory from the same few arenas, where the C library is glibc.

    It gives each thread an arena of its own, and each keeps the pieces of a stream that passed through it: with 16
    downloads, two packers and two hashers, 60 MB.
    """
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)
