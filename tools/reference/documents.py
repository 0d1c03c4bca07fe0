"""The part of docs/json.md: the documents of `--json`, from the schemas of `envspec/cli/schemas`. The site's page has
every key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from envspec.base.finding import Finding

SCHEMAS = Path(__file__).resolve().parents[2] / "envspec" / "cli" / "schemas"
Schema: TypeAlias = Mapping[str, Any]
_FINDING = Finding("info", "x", "x").document.keys()
_TYPES = {"string": "text", "boolean": "true or false", "array": "list", "object": "table", "integer": "number"}


def table() -> str:
    """Return a row for each document."""
    rows = (f"| [`{schema['title']}`]({_link(schema)}) | {_description(schema)} |" for schema in _all())
    return "\n".join(["| document | is |", "|---|---|", *rows]) + "\n"


def sections() -> str:
    """Return a section for each document, with its keys."""
    return "\n".join(map(_section, _all()))


def _all() -> Iterator[Schema]:
    for path in sorted(SCHEMAS.glob("*.json")):
        yield json.loads(path.read_text("utf-8"))


def _link(schema: Schema) -> str:
    return f"../envspec/cli/schemas/{str(schema['title']).split('/')[1]}.json"


def _description(schema: Schema) -> str:
    return str(schema["description"]).removesuffix(".")


def _section(schema: Schema) -> str:
    lines = [f"## `{schema['title']}`", "", f"{_description(schema)}. ([schema]({_link(schema)}))"]
    lines += ["", "| key | value | |", "|---|---|---|"]
    for path, node in _rows(schema, "", schema.get("$defs", {}), {}):
        if path != "schema":
            items = _whole(node.get("items", {}), schema.get("$defs", {}))
            kind = "findings" if _kind(items) == "finding" else _kind(node)
            lines.append(f"| `{path}` | {kind} | {_cell(node.get('description', ''))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.removesuffix(".").replace("|", "\\|")


def _rows(node: Schema, path: str, named: Schema, seen: dict[str, str]) -> Iterator[tuple[str, Schema]]:
    """Yield each key below a node, by its path: `[]` for an element of a list, `.NAME` for any name."""
    if isinstance(node.get("items"), dict):
        yield from _below(node["items"], f"{path}[]", named, seen)
    if isinstance(node.get("additionalProperties"), dict):
        yield from _below(node["additionalProperties"], f"{path}.NAME", named, seen)
    properties = node.get("properties", {})
    for key, value in properties.items():
        if not (properties.keys() >= _FINDING and key in _FINDING and "enum" not in value):
            below = f"{path}.{key}".removeprefix(".")
            yield below, _whole(value, named)
            yield from _below(value, below, named, seen)


def _below(value: Schema, path: str, named: Schema, seen: dict[str, str]) -> Iterator[tuple[str, Schema]]:
    """Yield the keys of a value, once for each definition."""
    for schema in [value, *value.get("oneOf", ()), *value.get("anyOf", ())]:
        if reference := schema.get("$ref"):
            if _whole(schema, named).get("properties") and reference in seen:
                yield f"{path}.…".replace("[].…", "[]"), {"description": f"as `{seen[reference]}`"}
                continue
            seen.setdefault(reference, path)
        yield from _rows(_whole(schema, named), path, named, seen)


def _whole(node: Schema, named: Schema) -> Schema:
    """Return a node with its definition's keys."""
    reference = node.get("$ref")
    return {**named[reference.rpartition("/")[2]], **node} if reference else node


def _kind(node: Schema) -> str:
    """Return a value's type in words."""
    if "enum" in node:
        return ", ".join("null" if choice is None else f"`{choice}`" for choice in node["enum"])
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if node.get("properties", {}).keys() >= _FINDING:
        return "finding or null" if "null" in node["type"] else "finding"
    types = node.get("type", [])
    kinds = [types] if isinstance(types, str) else list(types)
    for variant in [*node.get("oneOf", ()), *node.get("anyOf", ())]:
        kinds += [variant["type"]] if isinstance(variant.get("type"), str) else ["object"] if "$ref" in variant else []
    return " or ".join(dict.fromkeys(_TYPES.get(kind, kind) for kind in kinds))
