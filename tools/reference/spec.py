"""docs/spec.md: every key of a spec, from the description that the JSON Schema is made of (`envspec.spec.schema`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from envspec.base.reader.document import toml
from envspec.base.reader.nodes import Array, Boolean, Either, Integer, Names, Node, Number, Table, Text
from envspec.spec.schema import FORMAT

HEAD = """\
# The spec, key by key

Generated from the format's own description, which the parser and the JSON Schema (`envspec schema`) are made of too.
`NAME` stands for a name of your own, `[]` for each element of an array. An unknown key is an error, with the nearest
known key as its hint. An example shows a value's type. [Own project](own-project.md), [conda](conda.md),
[constraints](constraints.md) and [resolution](resolution.md) explain the keys together.

The smallest spec:

```toml
[env]
python = "3.12"

[pip]
dependencies = ["torch"]

[targets.cpu]
platform = "linux-64"
```
"""


PLAIN = ("a string", "an array of strings", "a table")
"""The kinds of values that an example shows by itself."""


@dataclass(frozen=True)
class Key:
    """One key: its path from the root, what it holds, and whether its table must have it."""

    path: str
    node: Node
    required: bool


def page() -> str:
    """Return the page's text."""
    parts = [HEAD]
    seen: dict[int, str] = {}
    for key in _keys(Key("", FORMAT, True)):
        parts.append(_section(key, seen))
        seen.setdefault(id(key.node), key.path)
    return "\n".join(parts)


def _keys(parent: Key) -> Iterator[Key]:
    """Every key under one, simple values before tables."""
    if parent.path:
        yield parent
    below = tuple(_below(parent))
    yield from (key for key in below if not _has_keys(key.node))
    for key in below:
        if _has_keys(key.node):
            yield from _keys(key)


def _below(key: Key) -> Iterator[Key]:
    node = key.node
    if isinstance(node, Either):
        node = node.table
    if isinstance(node, Array):
        yield from _below(Key(f"{key.path}[]", node.items, False))
    elif isinstance(node, Names):
        if _has_keys(node.values):
            yield Key(f"{key.path}.NAME", node.values, False)
    elif isinstance(node, Table):
        for name, value in node.keys.items():
            yield Key(f"{key.path}.{name}".removeprefix("."), value, name in node.required)


def _has_keys(node: Node) -> bool:
    """Return whether a value holds keys of its own to describe."""
    if isinstance(node, Array):
        return _has_keys(node.items)
    return isinstance(node, (Table, Either)) or (isinstance(node, Names) and _has_keys(node.values))


def _section(key: Key, seen: Mapping[int, str]) -> str:
    heading = "##" if "." not in key.path else "###"
    text = f"{heading} `{key.path}`\n\n"
    if before := seen.get(id(key.node)):
        return f"{text}As [`{before}`](#{anchor(before)}).\n"
    facts = "".join(f"- {fact}\n" for fact in _facts(key))
    return text + f"{key.node.doc}\n" + (f"\n{facts}" if facts else "")


def anchor(path: str) -> str:
    """Return the fragment that Python-Markdown and GitHub give to a key's heading."""
    return "".join(sign for sign in path.lower() if sign.isalnum() or sign in "-_")


def _facts(key: Key) -> Iterator[str]:
    node = key.node
    default = getattr(node, "default", None)
    words = [
        *([] if (kind := _kind(node)) in PLAIN else [kind]),
        *(["required"] if key.required else []),
        *([f"default `{toml(default)}`"] if default is not None else []),
    ]
    example = _example(node)
    shown = [f"`{key.path.rpartition('.')[2]} = {toml(example)}`"] if example is not None else []
    if shown or words:
        yield ": ".join([*shown, *(["; ".join(words)] if words else [])])
    if isinstance(node, Names):
        yield f"Names: {node.names.doc}" + ("" if example is not None else f" For example `{node.names.example}`.")
        if isinstance(node.values, Text):
            yield f"Each value: {node.values.doc}"
    if isinstance(node, Table) and node.any_of:
        yield "At least one of " + ", ".join(f"`{name}`" for name in node.any_of)


def _kind(node: Node) -> str:
    if isinstance(node, Text):
        words = "one of " + ", ".join(f"`{choice}`" for choice in node.choices) if node.choices else "a string"
        dated = ", or a TOML date" if node.date else ""
        return f"{words}{dated}"
    if isinstance(node, Boolean):
        return "`true` or `false`"
    if isinstance(node, (Integer, Number)):
        word = "a whole number" if isinstance(node, Integer) else "a number"
        bounds = [f"{side} {_figure(limit)}" for side, limit in (("from", node.minimum), ("to", node.maximum))
                  if limit is not None and abs(limit) < 1e100]  # fmt: skip
        return " ".join([word, *bounds])
    if isinstance(node, Array):
        least = ", not empty" if node.min_items else ""
        plain = isinstance(node.items, Text) and not node.items.choices and not node.items.date
        items = "of strings" if plain else f"of: {_kind(node.items)}"
        return f"an array {items}{least}{', each once' if node.unique else ''}"
    if isinstance(node, Either):
        return f"{_kind(node.text)}, or a table"
    return f"a table{' of names' if isinstance(node, Names) else ''}{', not empty' if node.not_empty else ''}"


def _figure(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _example(node: Node) -> Any:
    if isinstance(node, Names):
        inner = _example(node.values)
        return None if inner is None else {node.names.example: inner}
    if isinstance(node, Either):
        return node.text.example
    if isinstance(node, Array):
        return _plain(node.example)
    return None if isinstance(node, Table) else node.example


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value
