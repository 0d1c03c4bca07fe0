"""The form of a document's values and paths in messages, without passwords."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, time
from typing import Any

from envspec.base.redact import redact

_LONGEST = 60


class RawFloat(float):
    """A TOML float that remembers how it was written: `3.10` is a Python version that only lacks its quotes."""

    def __new__(cls, text: str) -> RawFloat:
        self = super().__new__(cls, text)
        self.text = text
        return self

    text: str


def show(value: object) -> str:
    """Return a scalar as a message quotes it: escaped, redacted, and cut where it's long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # that there was a login is often what is wrong
        value = redact(value, login="***@")
        return repr(value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…")
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number beyond 64 bits"
    return value.text[:_LONGEST] if isinstance(value, RawFloat) else str(value)


def kind(value: object) -> str:
    """Return TOML's word for the type of `value`, with its article."""
    # A bool is an int to Python, and a datetime a date, so the order counts.
    for types, word in (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a whole number"),
        (float, "a number"),
        (list, "an array"),
        (dict, "a table"),
        (date, "a date"),
        (time, "a time"),
    ):
        if isinstance(value, types):
            return word
    return type(value).__name__


def key_path(path: Sequence[str | int]) -> str:
    """Return a path as TOML would write it, with indexes in brackets: `matrix.exclude[0].cuda`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if re.fullmatch("[A-Za-z0-9_-]+", part) else show(part))
    return text


def table_name(path: Sequence[str | int]) -> str:
    """Return a table as people name it: `[targets.cpu]`, or `matrix.exclude[0]` for one inside an array."""
    return key_path(path) if any(isinstance(part, int) for part in path) else f"[{key_path(path)}]"


def within(path: Sequence[str | int]) -> str:
    """Return "in [pip]", or "at the top level" for the root."""
    return f"in {table_name(path)}" if path else "at the top level"


def toml(value: Any) -> str:
    """Return an example from the schema as one would write it in TOML."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
