"""Reading the fact tables (`data/*.toml`), and the small values they are written in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data"


@cache
def read(name: str) -> dict[str, Any]:
    """A table by name (`"torch"`), parsed once. Callers must not change it."""
    import tomli

    return tomli.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def words(text: str | None) -> tuple[str, ...]:
    """The words of a table cell; none for an absent one."""
    return tuple(text.split()) if text else ()
