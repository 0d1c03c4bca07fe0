"""When an entry of the cache was used last: its own modification time, moved on at most once in some hours."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

_EVERY = 6 * 3600


def mark_used(path: Path) -> None:
    """Note that it is used now. Access times won't do: many filesystems keep none. Nothing happens where it can't be
    noted, for the cache may be read-only."""
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > _EVERY:
            os.utime(path)
