"""YAML values as text. Every string is quoted, so that none can be read as a number, a date, a flag or syntax."""

from __future__ import annotations

import json
from collections.abc import Iterable


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
