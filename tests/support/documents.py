"""What commands print as JSON, held to its schema."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from envspec import cli

SCHEMAS = Path(cli.__file__).parent / "schemas"


def valid(text: str | bytes, name: str) -> Any:
    """Read a document that must be what the schema NAME of a command's JSON says."""
    document = json.loads(text)
    validator(SCHEMAS / f"{name}.json").validate(document)
    return document


@cache
def validator(path: Path) -> jsonschema.Draft202012Validator:
    """Read a schema, once: `jsonschema.validate` looks through it each time, which takes longer than most commands."""
    schema = json.loads(path.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
