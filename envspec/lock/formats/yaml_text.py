"""YAML texts of plain values. A string that isn't plainly a word is quoted, so that no reader of YAML 1.1 or 1.2 takes
it for a number, a date, a flag or syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

_WORD = re.compile(r"(?!(?:y|yes|n|no|on|off|true|false|null)$)[a-z][a-z0-9]*(?:[-._/]+[a-z0-9]+)*", re.IGNORECASE)
_STRING = "tag:yaml.org,2002:str"


def dump(value: object, *, short: int = 90) -> str:
    """Write a document. A list or a table of at most `short` characters stands on one line, and a string is never
    broken."""
    import yaml

    def length(node: Any) -> int:
        if isinstance(node.value, str):
            return len(node.value) + 2
        return 2 + sum(2 + sum(map(length, part)) if isinstance(part, tuple) else length(part) for part in node.value)

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            return True

        def serialize_node(self, node: Any, parent: Any, index: Any) -> None:
            if not isinstance(node.value, str):
                node.flow_style = length(node) <= short
            super().serialize_node(node, parent, index)

        def choose_scalar_style(self) -> str:
            event: Any = self.event
            if event.tag == _STRING and not _WORD.fullmatch(event.value):
                return '"'
            return super().choose_scalar_style()

    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, width=1_000_000))


def string(text: str) -> str:
    """Return a double-quoted string in ASCII. The escapes are JSON's and, outside ASCII, those that YAML 1.1 and 1.2
    share."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    escaped = json.dumps(text, ensure_ascii=False).encode("ascii", "backslashreplace").decode()
    return escaped.replace("\x7f", "\\x7f")


def inline_strings(texts: Iterable[str]) -> str:
    """Return a sequence of strings on one line."""
    return f"[{', '.join(map(string, texts))}]"
