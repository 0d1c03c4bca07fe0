"""TOML values as text, safe for review: nothing invisible stands raw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envspec.base.texts import UNSEEN, printable

# What must not stand raw in a file that people review, and what TOML forbids in a basic string.
_ESCAPED = re.compile(rf'["\\]|{UNSEEN.pattern}')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def string(text: str) -> str:
    """Return a string: literal ('…') where that spares escaping quotes, as in a marker, else basic ("…")."""
    # most are of printable ASCII, which costs less to see than a search
    if text.isascii() and text.isprintable():
        if '"' not in text and "\\" not in text:
            return f'"{text}"'
        if "'" not in text:
            return f"'{text}'"
    if not _ESCAPED.search(text):
        return f'"{text}"'
    if "'" not in text and not _ESCAPED.search(text.replace('"', "").replace("\\", "")):
        return f"'{text}'"
    return f'"{_ESCAPED.sub(_escape, text)}"'


def key(text: str) -> str:
    """Return a key, bare where TOML allows it."""
    return text if _BARE_KEY.fullmatch(text) else string(text)


def inline_strings(texts: Iterable[str]) -> str:
    """Return an array of strings on one line."""
    return f"[{', '.join(map(string, texts))}]"


def value(data: object) -> str:
    """Return a value on one line: a string, number, boolean, array or table. Anything else is written as its text."""
    if isinstance(data, str):
        return string(data)
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, dict | Mapping):
        return f"{{ {', '.join(f'{key(name)} = {value(content)}' for name, content in data.items())} }}"
    if isinstance(data, list | tuple):
        return f"[{', '.join(map(value, data))}]"
    return str(data) if isinstance(data, int) else string(str(data))


def lines(table: Mapping[str, object]) -> str:
    """Write a table, a line for each of its keys."""
    return "".join(f"{key(name)} = {value(content)}\n" for name, content in table.items())


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}")


def unseen(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of parsed TOML, keys among them, that hold a character of UNSEEN, each with the path of its key:
    names of packages stand in it where an array has tables."""
    if isinstance(value, str):
        if UNSEEN.search(value):
            yield path, value
    elif isinstance(value, Mapping):
        for name, child in value.items():
            yield from unseen(name, f"a key in {path or 'the lock'}")
            yield from unseen(child, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for child in value:
            named = child.get("name") if isinstance(child, Mapping) else None
            yield from unseen(child, f"{path}.{printable(named)}" if isinstance(named, str) else path)
