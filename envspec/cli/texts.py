"""Words from files, indexes and people, as messages show them."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.texts import printable

__all__ = ["nearest", "printable"]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `word` was most likely meant to be, or None."""
    from difflib import get_close_matches

    found = get_close_matches(word[:100].lower(), list(known), n=1)
    return found[0] if found else None
