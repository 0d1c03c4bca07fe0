"""The surface that users and their scripts hold on to: `python -m tools.surface` prints it, a line each.

    command lock --upgrade                a command and an option of it
    code driver-too-old                   a code of a finding, a reason or a change
    key spec.schema.json env.name         a key of a schema, by its path in the document

`tests/data/surface.txt` is what it printed of commit 5d8e421c, the last one before the rooms of the package moved.
`tests/tools/test_surface.py` compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import envspec
from envspec.base.codes import meanings
from envspec.cli.main import COMMANDS, HIDDEN

PACKAGE = Path(envspec.__file__).parent


def surface() -> Iterator[str]:
    """Yield the lines, in order."""
    yield from (f"library {name}" for name in sorted(envspec.__all__))
    for name in (*COMMANDS, *HIDDEN):
        yield from sorted(set(_command(name, import_module(f"envspec.cli.{name.replace('-', '_')}").command)))
    yield from (f"code {code}" for code in sorted(meanings()))
    for path in sorted(PACKAGE.rglob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        if "$schema" in schema:
            yield from (f"key {path.name} {key}" for key in sorted(set(keys(schema, schema, "", ()))))


def _command(name: str, command: click.Command) -> Iterator[str]:
    yield f"command {name}"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield from (f"command {name} {option}" for option in (*parameter.opts, *parameter.secondary_opts))
    if isinstance(command, click.Group):
        for word, subcommand in command.commands.items():
            yield from _command(f"{name} {word}", subcommand)


def keys(node: Any, root: Any, path: str, followed: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths of all keys below a schema's node: `targets.*.gpus[]`. `followed` ends circles of references."""
    if isinstance(node, list):
        for child in node:
            yield from keys(child, root, path, followed)
    if not isinstance(node, dict):
        return
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith("#") and reference not in followed:
        definition = root
        for step in reference[1:].strip("/").split("/"):
            definition = definition[step] if step else definition
        yield from keys(definition, root, path, (*followed, reference))
    for name, below in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        yield from keys(below, root, here, followed)
    for word in ("additionalProperties", "patternProperties"):
        rest = node.get(word)
        for below in rest.values() if word == "patternProperties" and rest else [rest]:
            yield from keys(below, root, f"{path}.*" if path else "*", followed)
    for word in ("items", "prefixItems"):
        yield from keys(node.get(word), root, f"{path}[]", followed)
    for word in ("anyOf", "oneOf", "allOf", "if", "then", "else"):
        yield from keys(node.get(word), root, path, followed)


if __name__ == "__main__":
    for line in surface():
        print(line)
