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


def numbers(version: str) -> tuple[int, ...]:
    """A dotted number as integers, so that `"12.10"` sorts after `"12.9"`. Raises ValueError for anything else."""
    return tuple(int(part) for part in version.split("."))


def words(text: str | None) -> tuple[str, ...]:
    """The words of a table cell; none for an absent one."""
    return tuple(text.split()) if text else ()
