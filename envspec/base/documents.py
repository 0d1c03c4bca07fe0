"""TOML, JSON, YAML and Python that others wrote: whatever is wrong with one is a single kind of exception.

The libraries raise more than they say: RecursionError for deep nesting, a bare ValueError for numbers of thousands of
digits and for dates that don't exist. Here alone they are called, so that no reader has to know it.

Why it is so: docs/design/02-code.md.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
import warnings
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from envspec import __version__
from envspec.base.errors import InputError, Place

_Value = TypeVar("_Value")


class Unreadable(ValueError):
    """A text isn't of its format, or is nested too deeply. `line` and `column` count from 1; 0 means unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason, self.line, self.column = reason, line, column


def read_toml(text: str) -> dict[str, Any]:
    """Read a TOML text. Raises Unreadable."""
    import tomli

    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise Unreadable(error.msg, error.lineno, error.colno) from None
    except RecursionError:
        raise Unreadable(_DEEP) from None
    except ValueError:
        raise Unreadable(_LONG) from None


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text; bytes are UTF-8. Raises Unreadable."""
    import json

    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(error.msg, error.lineno, error.colno) from None
    except UnicodeDecodeError:
        raise Unreadable("it isn't UTF-8") from None
    except RecursionError:
        raise Unreadable(_DEEP) from None
    except ValueError:
        raise Unreadable(_LONG) from None


def decode(content: str | bytes, kind: type[_Value]) -> _Value:
    """Read a JSON document that a program wrote as a value of a type. Raises Unreadable, with the path of what isn't
    of its type: "Expected `str`, got `int` - at `$.files[0].path`"."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise Unreadable(_DEEP) from None
    except ValueError as error:
        raise Unreadable(str(error)) from None


def convert(document: object, kind: type[_Value]) -> _Value:
    """Take a document that was read already as a value of a type. Raises Unreadable as `decode` does."""
    try:
        return msgspec.convert(document, kind)
    except ValueError as error:
        raise Unreadable(str(error)) from None


class _Versioned(Struct, frozen=True):
    format: int


def decode_format(content: bytes, kind: type[_Value], newest: int, place: Place, hint: str | None = None) -> _Value:
    """Read a record of envspec's own, whose `format` is a number. Raises InputError for one of a newer format, and for
    one that envspec didn't write."""
    try:
        if decode(content, _Versioned).format > newest:
            raise InputError(
                "a newer envspec wrote this", place=place, hint=f"install an envspec newer than {__version__}"
            )
        return decode(content, kind)
    except Unreadable as error:
        raise InputError(f"this file wasn't written by envspec: {error.reason}", place=place, hint=hint) from None


def encode(value: object) -> bytes:
    """Write a value as the JSON document that `decode` reads."""
    return msgspec.json.encode(value)


def read_yaml(text: str) -> Any:
    """Read a YAML text as plain types alone; by PyYAML's loader in C where there is one, which is eight times as fast.
    Raises Unreadable."""
    import yaml

    try:
        value = yaml.load(text, Loader=_yaml_loader())
        if _count_values(value, set(), {}) > len(text) + _MOST_REPEATED:
            raise Unreadable(_REPEATED)
        return value
    except Unreadable:
        raise
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise Unreadable(" ".join(str(error).split()), mark.line + 1 if mark is not None else 0) from None
    except RecursionError:
        raise Unreadable(_DEEP) from None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        # a date that doesn't exist, `!!int ""`, `=` where a number is read: the loader's own slips
        raise Unreadable(f"a value can't be read: {error}") from None


def _count_values(value: object, above: set[int], sizes: dict[int, int]) -> int:
    """Count the values in a document whose aliases are written out: whoever walks through it meets so many. Raises
    RecursionError for a value that an alias puts into itself: that walk would never end."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) in above:
        raise RecursionError
    if id(value) not in sizes:
        above.add(id(value))
        inner = value.values() if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_count_values(each, above, sizes) for each in inner)
        above.discard(id(value))
    return sizes[id(value)]


@cache
def _yaml_loader() -> type:
    """PyYAML's safe loader with bounds on nesting, as the one in C recurses until the stack is full, and on what `<<`
    merges: two merges a level double it."""
    import yaml

    base: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Bounded(base):  # type: ignore[misc]
        depth = merges = merged = 0

        # called for each node before and after what is in it; the base's are for path resolvers, which a safe loader
        # has none of
        def descend_resolver(self, parent: object, index: object) -> None:
            self.depth += 1
            if self.depth > _MAX_DEPTH:
                raise RecursionError

        def ascend_resolver(self) -> None:
            self.depth -= 1

        # called for each mapping, and by itself for each one that is merged into it
        def flatten_mapping(self, node: Any) -> None:
            self.merges += 1
            super().flatten_mapping(node)
            self.merges -= 1
            self.merged += len(node.value) if self.merges else 0
            if self.merged > _MOST_REPEATED:
                raise Unreadable(_REPEATED)

    return Bounded


def read_python(source: str | bytes) -> ast.Module:
    """The syntax tree of a Python text, which isn't run; bytes are in the encoding that they name. Raises Unreadable,
    also for an f-string with so many fields that Python's parser would take minutes."""
    try:
        if isinstance(source, bytes):
            source = source.decode(tokenize.detect_encoding(io.BytesIO(source).readline)[0])
        if _has_wild_string(source):
            raise Unreadable("an f-string has too many fields")
        with warnings.catch_warnings():
            # of odd escapes in it, which is its author's business
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (RecursionError, MemoryError):
        raise Unreadable(_DEEP) from None
    except (SyntaxError, ValueError, LookupError) as error:
        raise Unreadable(str(error)) from None


_TEMPLATE = re.compile(r"[fF][rR]?['\"]")
_LITERAL = re.compile(
    r"#[^\n]*|([A-Za-z]{0,2})(?:'{3}(?:[^\\]|\\.)*?(?:'{3}|\Z)|\"{3}(?:[^\\]|\\.)*?(?:\"{3}|\Z)"
    r"|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?)",
    re.DOTALL,
)
"""A comment or a string of Python; what opens one elsewhere opens none within it."""
_WILD = 10_000_000


def _has_wild_string(source: str) -> bool:
    """Return whether an f-string has more than so many fields by characters: for each field, Python's parser goes
    through the string up to there once more, so that 2 MB take half an hour."""
    if source.count("{") * len(source) <= _WILD or not _TEMPLATE.search(source):
        return False
    literals = (match[0] for match in _LITERAL.finditer(source) if "f" in (match[1] or "").lower())
    return any((text.count("{") - 2 * text.count("{{")) * len(text) > _WILD for text in literals)


def finite_number(value: object) -> float | None:
    """A number of such a document as a finite float, and None for anything else: integers have no largest there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


_MAX_DEPTH = 200
"""Levels of nested YAML. Locks of other tools have five."""

_MOST_REPEATED = 100_000
"""The values that aliases and merges may add to a YAML text."""

_DEEP = "it's nested too deeply"
_REPEATED = "its aliases repeat too much"
_LONG = "a number has too many digits"
