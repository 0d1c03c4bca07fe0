"""A description made of `envspec.base.reader.nodes` as a JSON Schema, in keywords of draft-07 and later."""

from __future__ import annotations

from typing import Any

from envspec.base.reader.nodes import Array, Boolean, Either, Integer, Names, Node, Number, Table, Text


def schema_of(node: Node) -> dict[str, Any]:
    """Return the schema of one node, with all that is under it. In its patterns `$` is the very end, as in ECMA 262."""
    if isinstance(node, Text):
        return _text(node)
    if isinstance(node, (Integer, Number)):
        return _number(node)
    if isinstance(node, Boolean):
        return {"type": "boolean", "description": node.doc, "examples": [node.example], "default": node.default}
    if isinstance(node, Array):
        return _array(node)
    if isinstance(node, Either):
        return {"description": node.doc, "anyOf": [schema_of(node.text), schema_of(node.table)]}
    schema: dict[str, Any] = {"type": "object", "description": node.doc}
    if node.not_empty:
        schema["minProperties"] = 1
    if isinstance(node, Names):
        return schema | {"propertyNames": _text(node.names), "additionalProperties": schema_of(node.values)}
    return schema | _keys(node)


def _keys(node: Table) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if node.required:
        schema["required"] = list(node.required)
    if node.any_of:
        schema["anyOf"] = [{"properties": {key: {}}, "required": [key]} for key in node.any_of]
    schema["properties"] = {key: schema_of(value) for key, value in node.keys.items()}
    schema["additionalProperties"] = False
    return schema


def _array(node: Array) -> dict[str, Any]:
    example = [list(item) if isinstance(item, tuple) else item for item in node.example]
    schema: dict[str, Any] = {"type": "array", "description": node.doc, "examples": [example]}
    schema["items"] = schema_of(node.items)
    if node.min_items:
        schema["minItems"] = node.min_items
    if node.unique:
        schema["uniqueItems"] = True
    return schema


def _number(node: Integer | Number) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "integer" if isinstance(node, Integer) else "number",
        "description": node.doc,
        "examples": [node.example],
    }
    if node.minimum is not None:
        schema["minimum"] = node.minimum
    if node.maximum is not None:
        schema["maximum"] = node.maximum
    if isinstance(node, Integer) and node.default is not None:
        schema["default"] = node.default
    return schema


def _text(node: Text) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "description": node.doc, "examples": [node.example]}
    if node.choices:
        schema["enum"] = list(node.choices)
    else:
        schema["pattern"] = f"^(?:{node.expression})$"
    if node.max_length is not None:
        schema["maxLength"] = node.max_length
    if node.default is not None:
        schema["default"] = node.default
    return schema
