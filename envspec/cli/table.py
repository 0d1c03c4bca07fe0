"""Tables for people: aligned plain text, coloured only on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envspec.cli.console import styled

COLOURS: Mapping[str, str] = {
    "error": "red",
    "infeasible": "red",
    "warning": "yellow",
    "ok": "green",
    "feasible": "green",
    "none": "bright_black",
    "unknown": "yellow",
    "elsewhere": "bright_black",
    "info": "blue",
    "pass": "green",
    "fail": "red",
    "skip": "bright_black",
}


def aligned(rows: Iterable[Sequence[str]], indent: str = "") -> Iterator[str]:
    """Render the rows as lines, each column as wide as its widest cell, without empty columns and trailing spaces."""
    cells = [list(row) for row in rows]
    if not cells:
        return
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = [index for index, width in enumerate(widths) if width]
    for row in cells:
        yield (indent + "  ".join(row[index].ljust(widths[index]) for index in shown)).rstrip()


def coloured(word: str, width: int = 0) -> str:
    """Pad a word of `COLOURS` to a width, in its colour where stdout is a terminal that wants colour."""
    padded = word.ljust(width)
    return styled(padded, COLOURS[word]) if word in COLOURS else padded
