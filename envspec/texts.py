"""Words from files, indexes and people, as messages show them, and counts of things."""

from __future__ import annotations


def printable(text: str) -> str:
    """A text from a file or an index without the characters that steer a terminal or turn a line around."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def plural(count: int, word: str) -> str:
    """ "1 package", "2 packages"."""
    return f"{count} {word}{'s' * (count != 1)}"
