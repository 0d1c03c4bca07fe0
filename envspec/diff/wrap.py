"""Lines of a terminal: wrapped by the columns that characters take, which for some are two, and for some none."""

from __future__ import annotations

import re


def cells(text: str) -> int:
    """How many columns a printable text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int) -> str:
    """A text with spaces behind it up to `width` columns."""
    return text + " " * (width - cells(text))


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """A text as lines of at most `width` columns, broken at spaces, and inside of words that are longer than a line.

    `first` stands before the first line, `rest` before the others. No line ends in spaces. Texts of one column a
    character come out as `textwrap` has them.
    """
    lines: list[str] = []
    line, used, indent = "", 0, first
    for chunk in re.split(r"( +)", text):
        room = width - len(indent)
        if chunk.isspace() and (line or not lines):
            # spaces that don't fit end the line
            line, used = (line + chunk, used + len(chunk)) if used + len(chunk) <= room else (line, room)
            continue
        while chunk and not chunk.isspace():
            size = cells(chunk)
            if used + size <= room:
                line, used = line + chunk, used + size
                break
            if size > room:
                fits = _fitting(chunk, room - used)
                line, chunk = line + chunk[:fits], chunk[fits:]
            if line.rstrip():
                lines.append(indent + line.rstrip())
            line, used, indent = "", 0, rest if lines else first
            room = width - len(indent)
    if line.rstrip():
        lines.append(indent + line.rstrip())
    return lines


def _fitting(word: str, room: int) -> int:
    """How many characters of a word fit."""
    used = 0
    for number, character in enumerate(word):
        used += cells(character)
        if used > room:
            return number
    return len(word)
