"""The fact tables (`data/*.toml`) and the small values in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data"


@cache
def read(name: str) -> dict[str, Any]:
    """Read a table by name (`"torch"`), once. Callers must not change it."""
    import tomli

    return tomli.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def words(text: str | None) -> tuple[str, ...]:
    """Split a table cell into words; an absent cell has none."""
    return tuple(text.split()) if text else ()
