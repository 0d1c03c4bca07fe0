"""What a wheel unpacks to, by its own list of entries, before anything unpacks it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from envspec.errors import IndexFailure
from envspec.net import limits


def refuse_bomb(path: Path, name: str) -> None:
    """Raise IndexFailure for a wheel of more entries, or that unpacks to more bytes, than the limits allow. `name` is
    for the message; what is no wheel at all is left to who installs it. Raises OSError."""
    bounds = limits.LIMITS
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError):
        return
    unpacked = sum(entry.file_size for entry in entries)
    most = max(bounds.unpacked_bytes, path.stat().st_size * bounds.unpacked_ratio)
    if len(entries) > bounds.archive_entries:
        told = f"{len(entries)} entries, and {bounds.archive_entries} are the most"
    elif unpacked > most:
        told = f"{unpacked >> 20} MiB once it's unpacked, and {most >> 20} MiB are the most for its size"
    else:
        return
    raise IndexFailure(
        f"{name} has {told}", hint="don't install it: such a wheel is hostile or broken; tell those who publish it"
    )
