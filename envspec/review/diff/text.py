"""A review for a terminal: at most 80 columns, the highest risk first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from envspec.base.texts import clean_text, printable
from envspec.review.diff import words
from envspec.review.diff.rows import Fact, Move, Review, Row

WIDTH = 80
_STYLES: dict[str, str] = {"high": "red;bold", "medium": "yellow", "low": "green", "bold": "bold", "dim": "dim"}


def text(review: Review, styled: Callable[[str, str], str] = lambda line, style: line) -> str:
    """Render a review as lines of at most `WIDTH` columns. `styled` gives a line a style, such as "red;bold"."""
    return "\n".join(_Printer(styled).lines(review)) + "\n"


class _Printer:
    def __init__(self, styled: Callable[[str, str], str]) -> None:
        self.styled = styled

    def lines(self, review: Review) -> Iterator[str]:
        name = f"{review.name}: " if review.name else ""
        yield from self._wrap(f"{name}{review.old_title} -> {review.new_title}", style="bold")
        yield from self._wrap(words.summary(review), hanging=2)
        for line in review.chosen:
            yield from self._wrap(line, hanging=2)
        for lookup in (review.verified, review.looked_up):
            for line in lookup.lines() if lookup else ():
                yield from self._wrap(line, hanging=2)
        for row, fact in review.shouted:
            yield ""
            yield from self._wrap(f"!! {row.name}: {words.fact(fact)}", style="high", hanging=3)
        yield from self._facts(words.FLAWS, review.flaws)
        yield from self._facts("GPU", review.gpu)
        yield from self._facts("Spec and targets", review.settings)
        downloads = words.downloads(review)
        if downloads:
            yield ""
        for line in downloads:
            yield from self._wrap(line, hanging=2)
        for section in words.sections(review):
            yield from self._rows(section)

    def _facts(self, title: str, facts: Iterable[Fact]) -> Iterator[str]:
        facts = tuple(facts)
        if facts:
            yield ""
            yield self._style(title, "bold")
        for fact in facts:
            lines = self._wrap(words.fact(fact), indent=10)
            first = next(lines)
            yield f"  {self._style(fact.risk.ljust(6), fact.risk)}  {first.lstrip()}"
            yield from lines

    def _rows(self, section: words.Section) -> Iterator[str]:
        yield ""
        yield self._style(section.heading, section.risk)
        width = min(max(cells(printable(row.name)) for row in section.rows), 28)
        for row in section.rows:
            yield from self._row(row, width)

    def _row(self, row: Row, width: int) -> Iterator[str]:
        heads = [_head(row, move, first=not number) for number, move in enumerate(row.moves)]
        alike = words.alike(row)
        for number, (move, head) in enumerate(zip(row.moves, heads, strict=True)):
            name = printable(row.name) if number == 0 else ""
            lines = self._wrap(f"  {pad(name, width)}  {head}", hanging=6)
            yield next(lines)
            yield from lines
            # what holds for all moves is said once, below the last
            for fact in () if alike and number + 1 < len(row.moves) else move.facts:
                yield from self._wrap(words.fact(fact), indent=6)
            for edge in words.edges(move):
                yield from self._wrap(edge, indent=6)
            if move.releases and (not alike or number + 1 == len(row.moves)):
                yield from self._wrap(f"releases: {move.releases}", indent=6)

    def _wrap(self, line: str, *, style: str = "", indent: int = 0, hanging: int = 0) -> Iterator[str]:
        # every line with a foreign word in it comes by here
        lines = wrap(clean_text(line), WIDTH, " " * indent, " " * (indent + hanging))
        yield from (self._style(part, style) for part in lines)

    def _style(self, line: str, style: str) -> str:
        return self.styled(line, _STYLES[style]) if style else line


def _head(row: Row, move: Move, *, first: bool) -> str:
    parts = [words.versions(move), words.jump(move), words.size(move), words.origin(row) if first else ""]
    parts.append(words.where(move.targets))
    if first and row.kind == "conda":
        parts.insert(0, "(conda)")
    return "  ".join(filter(None, parts))


def cells(text: str) -> int:
    """Return the number of columns of a printable text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int) -> str:
    """Pad a text with spaces to `width` columns."""
    return text + " " * (width - cells(text))


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Wrap a text to lines of at most `width` columns, at spaces, and inside words that are longer than a line.

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
    """Return how many characters of a word fit."""
    used = 0
    for number, character in enumerate(word):
        used += cells(character)
        if used > room:
            return number
    return len(word)
