"""The text of a fact table, edited row by row: comments and other lines stay unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def rows_of(text: str, table: str) -> list[Row]:
    """Read the rows of one of a file's tables (`releases = [`), in their order."""
    import tomli

    rows: list[Row] = tomli.loads(text)[table]
    return rows


def with_rows(text: str, table: str, rows: Sequence[Row]) -> str:
    """Put these rows into the table. An existing row keeps its line."""
    lines = text.splitlines()
    start = lines.index(f"{table} = [") + 1
    end = lines.index("]", start)
    known = {row_text(row): line for row, line in zip(rows_of(text, table), lines[start:end], strict=True)}
    changed = [known.get(row_text(row), row_text(row)) for row in rows]
    return "\n".join([*lines[:start], *changed, *lines[end:]]) + "\n"


def with_source(text: str, name: str, meaning: str) -> str:
    """Add a line for a source after the other sources, if a row names it and the line is missing."""
    lines = text.splitlines()
    used = any(
        re.search(rf'source = "([^"]* )?{re.escape(name)}[ "]', line) for line in lines if line.startswith("  {")
    )
    if not used or any(line.startswith(f"sources.{name} ") for line in lines):
        return text
    last = max(index for index, line in enumerate(lines) if line.startswith("sources."))
    return "\n".join([*lines[: last + 1], f"sources.{name} = {_value(meaning)}", *lines[last + 1 :]]) + "\n"


def row_text(row: Row) -> str:
    """Write a row as the tables do: one line, its keys in their order."""
    return f"  {_value(row)},"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    if not isinstance(value, str):
        return str(value)
    if not value.isprintable() or '"' in value or "\\" in value:
        raise ValueError(f"{value!r} can't stand in a fact table")
    return f'"{value}"'
