"""TOML values as text, safe for review: nothing invisible stands raw."""

from __future__ import annotations

import re
from collections.abc import Iterable

# What must not stand raw in a file that people review: what TOML forbids, line ends of any script, and characters
# that are invisible or turn the direction of text. A fixed list, for Unicode tables differ between Python versions.
_ESCAPED = re.compile(
    '[\x00-\x1f"\\\\\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f'
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def string(text: str) -> str:
    """A string: literal ('…') where that spares escaping quotes, as in a marker, else basic ("…")."""
    if not _ESCAPED.search(text):
        return f'"{text}"'
    if "'" not in text and not _ESCAPED.search(text.replace('"', "").replace("\\", "")):
        return f"'{text}'"
    return f'"{_ESCAPED.sub(_escape, text)}"'


def key(text: str) -> str:
    """A key, bare where TOML allows it."""
    return text if _BARE_KEY.fullmatch(text) else string(text)


def inline_strings(texts: Iterable[str]) -> str:
    """An array of strings on one line."""
    return f"[{', '.join(map(string, texts))}]"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}")
