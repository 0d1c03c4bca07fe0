"""A site's references: the figures that its machines should reach, in one file for many specs.

[references]
"training.samples_per_s" = { value = 900, low = -0.1, unit = "samples/s" }

[targets.cu128-hopper.references]          # a target's own come first
"training.samples_per_s" = { value = 2400, low = -0.1, unit = "samples/s" }
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.documents import Unreadable, finite_number, read_toml
from envspec.base.errors import InputError, Place
from envspec.spec.model import Reference


class References:
    """The references of a file, by target."""

    def __init__(self, common: Mapping[str, Reference], own: Mapping[str, Mapping[str, Reference]]) -> None:
        self._common, self._own = common, own

    def of(self, target: str) -> dict[str, Reference]:
        """Give the references of a target's figures, by the figure's name."""
        return {**self._common, **self._own.get(target, {})}


def load_references(path: Path) -> References:
    """Read a file of references. Raises InputError."""
    try:
        table = read_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError("the references aren't UTF-8", place=Place(str(path)), hint="save the file as UTF-8") from None
    except Unreadable as error:
        raise InputError(
            f"the references aren't TOML: {error.reason}", place=Place(str(path), error.line, error.column)
        ) from None
    file = str(path)
    _known(table, ("references", "targets"), "", file)
    targets = _table(table.get("targets", {}), "targets", file)
    own = {}
    for name, value in targets.items():
        _known(_table(value, f"targets.{name}", file), ("references",), f"targets.{name}.", file)
        own[name] = _references(value.get("references", {}), f"targets.{name}.references", file)
    return References(_references(table.get("references", {}), "references", file), own)


def _references(value: Any, where: str, file: str) -> dict[str, Reference]:
    return {name: _reference(one, f"{where}.{name}", file) for name, one in _table(value, where, file).items()}


def _reference(value: Any, where: str, file: str) -> Reference:
    table = _table(value, where, file)
    _known(table, ("value", "low", "high", "unit"), f"{where}.", file)
    numbers: dict[str, float | None] = {}
    for key in ("value", "low", "high"):
        one = table.get(key)
        numbers[key] = None if one is None else finite_number(one)
        if one is not None and numbers[key] is None:
            raise InputError(f"{where}.{key} isn't a number: {str(one)[:80]!r}", place=Place(file))
    number, low, high, unit = numbers["value"], numbers["low"], numbers["high"], table.get("unit", "")
    if number is None:
        raise InputError(f"{where} has no value", hint="for example { value = 900, low = -0.1 }", place=Place(file))
    if not isinstance(unit, str):
        raise InputError(f"{where}.unit isn't a text", place=Place(file))
    if (low is not None and low > 0) or (high is not None and high < 0):
        raise InputError(
            f"{where}: low and high are shares of the value, low at most 0 and high at least 0",
            hint="low = -0.1 allows 10 % less",
            place=Place(file),
        )
    return Reference(number, low, high, unit)


def _table(value: Any, where: str, file: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} isn't a table", place=Place(file))
    return value


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str, file: str) -> None:
    for key in table:
        if key not in keys:
            raise InputError(
                f"a file of references can't have {where}{key}",
                hint=f"valid keys: {', '.join(keys)}; a figure's name contains a dot, so quote it",
                place=Place(file),
            )
