"""The lock's text in schema 2, which was solved for Python X.Y.0 whatever build it names: schema 3's tables, without
what bounds Python and what overwrites what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from envspec.lock import keys
from envspec.lock.model import Lock
from envspec.lock.reading import v3


def read(text: str, path: str) -> Lock:
    """Parse a text whose `lock-version` is 2. Raises LockError."""
    return SecondReader(text, path).lock()


class SecondReader(v3.Reader):
    """A reading of one text, table by table."""

    schema = 2
    target_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in keys.TARGET.items() if name != "python-range"
    }
    package_keys: ClassVar[Mapping[str, type]] = {
        name: kind for name, kind in keys.PACKAGE.items() if name not in ("requires-python", "overwrites")
    }
