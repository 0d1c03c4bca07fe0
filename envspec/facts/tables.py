"""The fact tables (`data/*.toml`, or those of a newer edition) and the small values in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_origin

from msgspec import Struct, convert
from msgspec.structs import fields

from envspec.facts import edition

_Record = TypeVar("_Record", bound=Struct)


@cache
def read(name: str) -> dict[str, Any]:
    """Read a table by name (`"torch"`), once. Callers must not change it."""
    import tomli

    with open(os.path.join(edition.folder(), f"{name}.toml"), "rb") as file:
        return tomli.load(file)


def words(text: str | None) -> tuple[str, ...]:
    """Split a table cell into words; an absent cell has none."""
    return tuple(text.split()) if text else ()


def records(form: type[_Record], rows: Iterable[Mapping[str, Any]]) -> tuple[_Record, ...]:
    """Make a record of each row: a field has the cell of its name, or of the one that the record's `rename` gives it.
    A text is split where the field has several words. An absent cell is the field's default, no words or None.

    Raises msgspec.ValidationError for a cell that the field can't have.
    """
    known = fields(form)
    lists = {field.encode_name for field in known if get_origin(field.type) is tuple}
    absent = {field.encode_name: () if field.encode_name in lists else None for field in known if field.required}
    cells = (
        {key: words(cell) if key in lists and isinstance(cell, str) else cell for key, cell in row.items()}
        for row in rows
    )
    return tuple(convert({**absent, **row}, form) for row in cells)
