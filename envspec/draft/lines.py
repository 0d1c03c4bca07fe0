"""The texts of a TOML or YAML document with the lines where they stand: parsers give values without places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envspec.base.errors import Place
from envspec.base.reader.positions import Path as KeyPath, Position, TooDeep, toml_positions
from envspec.lock.formats.foreign.shape import toml_of, yaml_of


class LocatedText(str):
    """A text of a document, and its line."""

    line: int

    def __new__(cls, text: str, line: int) -> LocatedText:
        located = super().__new__(cls, text)
        located.line = line
        return located


def at(text: object, place: Place) -> Place:
    """Return the place of a text of a document; `place` for any other text, and where that has a line already."""
    return Place(place.file, text.line) if isinstance(text, LocatedText) and not place.line else place


def located_toml(text: str) -> Mapping[str, Any]:
    """Parse TOML into located texts. Raises Malformed."""
    data = toml_of(text)
    try:
        located: Mapping[str, Any] = _of_toml(data, toml_positions(text), ())
    except TooDeep:
        return data
    return located


def _of_toml(value: Any, positions: Mapping[KeyPath, Position], path: KeyPath) -> Any:
    if isinstance(value, dict):
        return {
            LocatedText(key, _line(positions, (*path, key), of_key=True)): _of_toml(inner, positions, (*path, key))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_of_toml(inner, positions, (*path, number)) for number, inner in enumerate(value)]
    return LocatedText(value, _line(positions, path)) if isinstance(value, str) else value


def _line(positions: Mapping[KeyPath, Position], path: KeyPath, *, of_key: bool = False) -> int:
    position = positions.get(path)
    return 0 if position is None else (position.key if of_key else position.value).line


def located_yaml(text: str) -> Mapping[str, Any]:
    """Parse YAML into located texts; a number is the text that stands there, as 3.10 isn't 3.1. Raises Malformed."""
    import yaml

    data = yaml_of(text)
    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    located: Mapping[str, Any] = _of_yaml(data, root)
    return located


def _of_yaml(value: Any, node: Any) -> Any:
    if isinstance(value, dict) and isinstance(node.value, list):
        nodes = {key.value: (key, inner) for key, inner in node.value if isinstance(key.value, str)}
        return {
            LocatedText(key, nodes[key][0].start_mark.line + 1) if key in nodes else key: (
                _of_yaml(inner, nodes[key][1]) if key in nodes else inner
            )
            for key, inner in value.items()
        }
    if isinstance(value, list) and isinstance(node.value, list) and len(value) == len(node.value):
        return [_of_yaml(inner, inner_node) for inner, inner_node in zip(value, node.value, strict=True)]
    if isinstance(value, str | int | float) and not isinstance(value, bool) and isinstance(node.value, str):
        return LocatedText(value if isinstance(value, str) else node.value, node.start_mark.line + 1)
    return value
