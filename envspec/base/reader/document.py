"""A TOML file that people write, as a document whose every value has a place. A broken file gives one clear error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli

from envspec.base.errors import Place, SpecError
from envspec.base.reader.messages import RawFloat, key_path, table_name
from envspec.base.reader.positions import (
    Mark,
    Path,
    Position,
    TooDeep,
    first_duplicate,
    mark_at,
    toml_positions,
    too_deep,
)
from envspec.base.redact import redact

if TYPE_CHECKING:
    pass

_OTHER_ENCODINGS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
# By the beginning of tomli's message.
_HINTS = (
    ("Unescaped '\\'", "write '\\\\' for a backslash, or put the text in single quotes"),
    ("Illegal character '\\n'", "close the string: a quote is missing at the line's end"),
    ("Invalid value", "text needs quotes; also check that every '[' and '{' before it is closed"),
    ("Unclosed array", "close the array with ']'"),
)


@dataclass(frozen=True)
class Document:
    """A TOML document: its values, and where they stand in `file`."""

    file: str
    data: Mapping[str, Any]
    positions: Mapping[Path, Position]

    def place(self, path: Path, *, at_key: bool = False) -> Place:
        """Return the place of the value at `path`, or of its key."""
        position = self.positions[path]
        return _place(self.file, position.key if at_key else position.value)


def _place(file: str, mark: Mark) -> Place:
    return Place(file, mark.line, mark.column)


def decode(data: bytes, file: str) -> str:
    """Decode the text of a spec. Raises SpecError, with line and column, where it isn't UTF-8."""
    for mark, encoding in _OTHER_ENCODINGS:
        if data.startswith(mark):
            raise SpecError(f"the file is {encoding}, not UTF-8", hint="save it as UTF-8", place=Place(file, 1, 1))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise SpecError(
            f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}",
            hint="save the file as UTF-8",
            place=_place(file, mark_at(before, len(before))),
        ) from None


def parse_toml(text: str, file: str) -> Document:
    """Parse a spec's text. Raises SpecError, with line and column, for what isn't TOML."""
    _refuse_odd_characters(text, file)
    try:
        data = tomli.loads(text, parse_float=RawFloat)
        return Document(file, data, toml_positions(text))
    except tomli.TOMLDecodeError as error:
        raise _syntax_error(text, error, file) from None
    except (RecursionError, TooDeep):
        place = _place(file, too_deep(text) or Mark(1, 1))
        raise SpecError(
            "nested too deeply", hint="no file of envspec needs more than six levels", place=place
        ) from None
    except ValueError:
        # The one thing that tomli leaves to Python: an integer of more digits than `int` takes.
        found = re.search("[0-9][0-9_]{600,}", text)
        place = _place(file, mark_at(text, found.start() if found else 0))
        raise SpecError("a number of too many digits", hint="write a smaller one", place=place) from None


def _refuse_odd_characters(text: str, file: str) -> None:
    if text.startswith("\ufeff"):
        raise SpecError(
            "the file begins with a byte order mark", hint="save it as UTF-8 without BOM", place=Place(file, 1, 1)
        )
    if text.isascii() and "\0" not in text:
        return
    odd = re.search("[\0\ud800-\udfff]", text)
    if odd is None:
        return
    place = _place(file, mark_at(text, odd.start()))
    if odd[0] == "\0":
        raise SpecError("a NUL character: the file is damaged or isn't text", hint="write the file again", place=place)
    raise SpecError("half of a surrogate pair, which UTF-8 can't hold", hint="save the file as UTF-8", place=place)


def _syntax_error(text: str, error: tomli.TOMLDecodeError, file: str) -> SpecError:
    place = Place(file, error.lineno, error.colno)
    if re.match("Cannot (declare|overwrite)|Duplicate", error.msg):
        twice = first_duplicate(text)
        if twice is not None and twice.second.line <= error.lineno:
            is_table = error.msg.startswith("Cannot declare")
            what = table_name(twice.path) if is_table else f"the key {key_path(twice.path)}"
            hint = f"it was first given at line {twice.first.line}; put the two together, or rename one"
            return SpecError(f"{what} is given twice", hint=hint, place=_place(file, twice.second))
    message = f"not TOML: {redact(error.msg[:1].lower() + error.msg[1:])}"
    return SpecError(message, hint=_syntax_hint(text, error), place=place)


def _syntax_hint(text: str, error: tomli.TOMLDecodeError) -> str:
    lines = text.split("\n")
    line = lines[error.lineno - 1][:500] if error.lineno <= len(lines) else ""
    value = re.match(r"\s*[A-Za-z0-9_.\"'-]+\s*=\s*([^\s\"'\[{#]\S*)\s*(?:#.*)?$", line)
    if value and "@" not in line:
        return f'text needs quotes: "{value[1][:60]}"'
    for start, hint in _HINTS:
        if error.msg.startswith(start):
            return hint
    return "see https://toml.io for the syntax"
