"""Words from files, indexes and people, as messages show them, and counts of things."""

from __future__ import annotations

from collections.abc import Iterable


def printable(text: str) -> str:
    """A text from a file or an index without the characters that steer a terminal or turn a line around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `word` was most likely meant to be, or None."""
    from difflib import get_close_matches

    found = get_close_matches(word[:100].lower(), list(known), n=1)
    return found[0] if found else None


def plural(count: int, word: str) -> str:
    """ "1 package", "2 packages"."""
    return f"{count} {word}{'s' * (count != 1)}"
