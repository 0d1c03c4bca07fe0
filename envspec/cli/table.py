"""Tables for people: aligned plain text as wide as the terminal, coloured only on one.

Names and numbers stay whole: a column is never narrower than its longest word, and where that is too much for the
terminal, a row is a list. (rich's tables would break the words, and take longer to load than the command.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from envspec.base.texts import printable
from envspec.cli.console import columns, style_text

if TYPE_CHECKING:
    from envspec.base.finding import Finding
    from envspec.lock.model import Lock

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

_GAP = "  "


def heading(names: tuple[str, ...], lock: Lock) -> str:
    """Name a group: "all 6 targets", or its targets' names."""
    if len(names) == len(lock.targets) > 1:
        return "both targets" if len(names) == 2 else f"all {len(names)} targets"
    return ", ".join(names)


def align(rows: Iterable[Sequence[str]], *, heading: bool = False, right: str = "") -> Iterator[str]:
    """Render the rows as lines, each column as wide as its widest cell, without empty columns and trailing spaces.

    On a terminal, cells go on below where the row would be too wide. A cell that is a word of `COLOURS` is coloured.

    heading   the first row names the columns: where even the longest words don't fit, each row is a list by these names
    right     the columns, by their numbers ("12"), whose cells stand at the right
    """
    for lines in align_rows(rows, heading=heading, right=right):
        yield from lines


def align_rows(rows: Iterable[Sequence[str]], *, heading: bool = False, right: str = "") -> Iterator[list[str]]:
    """Render the rows as `align` does, and give each row's lines by themselves."""
    cells = [list(row) for row in rows]
    if not cells:
        return
    shown = [index for index, column in enumerate(zip(*cells, strict=True)) if any(column)]
    cells = [[row[index] for index in shown] for row in cells]
    at_right = {place for place, index in enumerate(shown) if str(index) in right}
    widths = _widths(cells, columns())
    if widths is None and heading:
        names, *body = cells
        yield []
        yield from (_list_cells(names, row) for row in body)
        return
    for row in cells:
        parts = [_wrap(cell, width) for cell, width in zip(row, widths or map(len, row), strict=True)]
        yield [
            _GAP.join(
                _pad(cell, widths[place] if widths else len(cell), place in at_right) for place, cell in enumerate(line)
            ).rstrip()
            for line in zip_longest(*parts, fillvalue="")
        ]


def colour_word(word: str, width: int = 0) -> str:
    """Pad a word of `COLOURS` to a width, in its colour where stdout is a terminal that wants colour."""
    padded = word.ljust(width)
    colour = COLOURS.get(word.strip())
    return style_text(padded, colour) if colour else padded


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Give the lines of findings for people: severity, place, targets, message and code, then the remedy."""
    for finding in findings:
        place = f"{finding.place}: " if finding.place else ""
        yield f"  {colour_word(finding.severity)}: {printable(place + finding.text)}  [{finding.code}]"
        if finding.remedy:
            yield f"    remedy: {printable(finding.remedy)}"


def _pad(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else colour_word(cell, width)


def _widths(cells: Sequence[Sequence[str]], most: int | None) -> list[int] | None:
    """Give the columns' widths, the widest taken in where they are too wide together; None where words don't fit."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if most is None:
        return widths
    least = [max(len(word) for cell in column for word in cell.split() or [""]) for column in zip(*cells, strict=True)]
    room = most - len(_GAP) * (len(widths) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        _, widest = max((width, place) for place, width in enumerate(widths) if width > least[place])
        widths[widest] -= 1
    return widths


def _wrap(cell: str, width: int) -> list[str]:
    if len(cell) <= width:
        return [cell]
    from textwrap import wrap

    return wrap(cell, width, break_long_words=False, break_on_hyphens=False)


def _list_cells(names: Sequence[str], row: Sequence[str]) -> list[str]:
    """Give a row as its first cell and a line for each other, by the columns' names."""
    width = max(map(len, names))
    rest = zip(names[1:], row[1:], strict=True)
    return [row[0], *(f"  {name.ljust(width)}  {cell}" for name, cell in rest if cell)]
