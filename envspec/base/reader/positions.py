"""The place of every key and value in a TOML text. TOML parsers give values without places; people need both.

The scanner relies on a text that has already parsed, so it finds borders and doesn't validate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import tomli
from msgspec import Struct

Path = tuple[str | int, ...]
"""The way from the document's root to a value: a table's keys and an array's indexes."""


MAX_DEPTH = 50
"""The most levels of a nested document. A spec needs six levels; far more would exhaust Python's stack."""


class TooDeep(Exception):
    """A document is nested deeper than `MAX_DEPTH`; `offset` is where."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        super().__init__(f"nested too deeply at offset {offset}")


class Mark(Struct, frozen=True):
    """A line and a column, both from 1; columns count characters."""

    line: int
    column: int


class Position(Struct, frozen=True):
    """The beginnings of a key and of its value.

    An element of an array has no key: both are the value's. A table made by a header has its value at the `[`; one that
    only a longer header or a dotted key implies has its value where that header or dotted key begins.
    """

    key: Mark
    value: Mark


class Duplicate(Struct, frozen=True):
    """A key or table given twice, and where."""

    path: Path
    first: Mark
    second: Mark


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|' r"'[^']*'")
_LONG_STRING = re.compile(r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*"{3,5}' r"|'''[\s\S]*?'{3,5}")
_PLAIN = re.compile(r"[^\s,\]}#]+")
_TIME_BEHIND_A_DATE = re.compile(r" \d\d:[0-9:.]+(?:[Zz]|[+-]\d\d:\d\d)?")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_QUOTES = ("'", '"')
_LONG_QUOTES = ("'''", '"""')


class _Entry(Struct, frozen=True):
    """One finding: offsets into the text. `stated` is false for a table that is only implied."""

    path: Path
    key: int
    value: int
    stated: bool = True


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.elements: dict[Path, int] = {}

    def skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.offset)
        if match is None:
            raise ValueError(f"not TOML at offset {self.offset}")
        self.offset = match.end()
        return match.group()

    def peek(self) -> str:
        return self.text[self.offset : self.offset + 1]

    def document(self) -> Iterator[_Entry]:
        table: Path = ()
        while True:
            self.skip(_BLANK)
            if not self.peek():
                return
            if self.peek() == "[":
                header = list(self.header())
                yield from header
                table = header[-1].path
            else:
                yield from self.pair(table)

    def header(self) -> Iterator[_Entry]:
        start = self.offset
        array = self.text.startswith("[[", start)
        self.offset += 2 if array else 1
        parts = self.key_parts()
        self.offset += 2 if array else 1
        path: Path = ()
        for name, offset in parts[:-1]:
            path += (name,)
            yield _Entry(path, offset, start, stated=False)
            if path in self.elements:
                path += (self.elements[path],)
        name, offset = parts[-1]
        path += (name,)
        yield _Entry(path, offset, start, stated=not array)
        if array:
            self.elements[path] = self.elements.get(path, -1) + 1
            yield _Entry((*path, self.elements[path]), start, start)

    def key_parts(self) -> list[tuple[str, int]]:
        """Return the parts of a key, each with its offset."""
        parts: list[tuple[str, int]] = []
        while len(parts) < MAX_DEPTH:
            self.skip(_SPACE)
            start = self.offset
            quoted = self.peek() in _QUOTES
            raw = self.string() if quoted else self.skip(_BARE_KEY)
            parts.append((_unquote(raw) if quoted else raw, start))
            self.skip(_SPACE)
            if self.peek() != ".":
                return parts
            self.offset += 1
        raise TooDeep(self.offset)

    def pair(self, table: Path) -> Iterator[_Entry]:
        parts = self.key_parts()
        self.offset += 1
        self.skip(_SPACE)
        path = table
        for name, offset in parts[:-1]:
            path += (name,)
            yield _Entry(path, offset, parts[0][1], stated=False)
        name, offset = parts[-1]
        yield from self.value((*path, name), offset)

    def value(self, path: Path, key: int) -> Iterator[_Entry]:
        if len(path) > MAX_DEPTH:
            raise TooDeep(self.offset)
        yield _Entry(path, key, self.offset)
        first = self.peek()
        if first == "[":
            yield from self.array(path)
        elif first == "{":
            yield from self.inline_table(path)
        elif first in _QUOTES:
            self.string()
        else:
            self.plain()

    def string(self) -> str:
        return self.skip(_LONG_STRING if self.text.startswith(_LONG_QUOTES, self.offset) else _STRING)

    def plain(self) -> None:
        value = self.skip(_PLAIN)
        if len(value) == 10 and value[4] == value[7] == "-":
            match = _TIME_BEHIND_A_DATE.match(self.text, self.offset)
            self.offset = match.end() if match else self.offset

    def array(self, path: Path) -> Iterator[_Entry]:
        for index, _ in enumerate(self.each_element("]")):
            yield from self.value((*path, index), self.offset)

    def inline_table(self, path: Path) -> Iterator[_Entry]:
        for _ in self.each_element("}"):
            yield from self.pair(path)

    def each_element(self, closing: str) -> Iterator[None]:
        """Stop at each element between the bracket here and its `closing` one, and pass that one."""
        while True:
            self.offset += 1
            self.skip(_BLANK)
            if self.peek() == closing:
                break
            yield
            self.skip(_BLANK)
            if self.peek() == closing:
                break
        self.offset += 1


def _unquote(raw: str) -> str:
    return str(tomli.loads(f"key = {raw}")["key"])


def _marks(text: str, offsets: Iterable[int]) -> dict[int, Mark]:
    """Return the line and column of each of these offsets."""
    marks = {}
    line, start = 1, 0
    for offset in sorted(set(offsets)):
        breaks = text.count("\n", start, offset)
        if breaks:
            line, start = line + breaks, text.rindex("\n", start, offset) + 1
        marks[offset] = Mark(line, offset - start + 1)
    return marks


def toml_positions(text: str) -> Mapping[Path, Position]:
    """Return the position of everything in `text`, a TOML document that has already parsed.

    Every path that a TOML parser sees is a key of the answer, implied tables and the root, `()`, too. Where several
    headers mention a table, its own header counts, otherwise the first. Raises ValueError on what isn't TOML, and
    TooDeep.
    """
    entries: dict[Path, _Entry] = {(): _Entry((), 0, 0)}
    for entry in _Scanner(text).document():
        if entry.stated or entry.path not in entries:
            entries[entry.path] = entry
    marks = _marks(text, (offset for entry in entries.values() for offset in (entry.key, entry.value)))
    return {path: Position(marks[entry.key], marks[entry.value]) for path, entry in entries.items()}


def mark_at(text: str, offset: int) -> Mark:
    """Return the line and column of the character at `offset`."""
    return _marks(text, (offset,))[offset]


def first_duplicate(text: str) -> Duplicate | None:
    """Find the first key or table of `text` that is given twice; a TOML parser says only where it stopped.

    `text` may be broken after that point. None if there is no such key.
    """
    stated: dict[Path, int] = {}
    try:
        for entry in _Scanner(text).document():
            if not entry.stated:
                continue
            if entry.path in stated:
                return Duplicate(entry.path, mark_at(text, stated[entry.path]), mark_at(text, entry.key))
            stated[entry.path] = entry.key
    except (ValueError, TooDeep):
        pass
    return None


def too_deep(text: str) -> Mark | None:
    """Find where `text` is nested deeper than `MAX_DEPTH`, None if it isn't. `text` may be broken after that point."""
    try:
        for _ in _Scanner(text).document():
            pass
    except TooDeep as error:
        return mark_at(text, error.offset)
    except ValueError:
        pass
    return None
