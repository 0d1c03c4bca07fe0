"""The fact tables (`data/*.toml`, or those of a newer edition) and the small values in them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from envspec.facts import edition


@cache
def read(name: str) -> dict[str, Any]:
    """Read a table by name (`"torch"`), once. Callers must not change it."""
    import tomli

    with open(os.path.join(edition.folder(), f"{name}.toml"), "rb") as file:
        return tomli.load(file)


def words(text: str | None) -> tuple[str, ...]:
    """Split a table cell into words; an absent cell has none."""
    return tuple(text.split()) if text else ()
