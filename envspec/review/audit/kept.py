"""The store of answers about releases: a lock without releases on an index needs no audit."""

from __future__ import annotations

from pathlib import Path


def kept_files(cache_dir: Path) -> list[Path]:
    """List the files with answers, one a source; none where the folder can't be read."""
    try:
        return sorted((cache_dir / "audit").glob("*.json"))
    except OSError:
        return []
