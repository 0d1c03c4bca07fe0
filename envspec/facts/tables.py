"""The fact tables (`data/*.toml`, or those of a newer edition) and the small values in them."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import tomli

from envspec.facts import edition


@cache
def read(name: str) -> dict[str, Any]:
    """Read a table by name (`"torch"`), once. Callers must not change it."""
    return _parse(_text(name))


@cache
def rows(name: str, array: str, *holding: str) -> list[dict[str, Any]]:
    """Read the rows of one array of a table (`"torch"`, `"builds"`): those whose line holds every one of these texts.

    Each row is a line of its own, so that the other lines needn't be parsed, which takes longer than all that a command
    does with them. Callers must not change what they get.
    """
    text = _text(name)
    start = text.index(f"\n{array} = [\n")
    lines = text[start : text.index("\n]", start)].splitlines()[2:]
    asked = [line for line in lines if all(one in line for one in holding)]
    found: list[dict[str, Any]] = _parse("\n".join(["rows = [", *asked, "]"]))["rows"]
    return found


@cache
def _text(name: str) -> str:
    with open(os.path.join(edition.folder(), f"{name}.toml"), encoding="utf-8") as file:
        return file.read()


def _parse(text: str) -> dict[str, Any]:
    return tomli.loads(text)


def words(text: str | None) -> tuple[str, ...]:
    """Split a table cell into words; an absent cell has none."""
    return tuple(text.split()) if text else ()
