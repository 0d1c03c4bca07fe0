"""The cache of wheels' statements: one small JSON a wheel."""

from __future__ import annotations

from pathlib import Path

from envspec.base.cache.entry import keep_value, read_value
from envspec.resolve.wheels.model import WheelSays

_SCHEMA = 2


class WheelStore:
    """The answers of wheels on disk. Writing is atomic; a damaged entry counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"wheels-v{_SCHEMA}"

    def get(self, key: str) -> WheelSays:
        """Return what is known of a wheel: nothing where there is no sound entry."""
        return read_value(self._path(key), WheelSays) or WheelSays()

    def put(self, key: str, says: WheelSays) -> None:
        """Keep answers. A cache that isn't writable is no error: the caller has them."""
        keep_value(self._path(key), says)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"
