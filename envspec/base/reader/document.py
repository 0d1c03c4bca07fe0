"""A TOML file that people write, as a document whose every value has a place. A broken file gives one clear error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from typing import Any

import tomli
from msgspec import Struct, field

from envspec.base.errors import Place, SpecError
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

# The form of a document's values and paths in messages, without passwords.

_LONGEST = 60


class RawFloat(float):
    """A TOML float that remembers how it was written: `3.10` is a Python version that only lacks its quotes."""

    def __new__(cls, text: str) -> RawFloat:
        self = super().__new__(cls, text)
        self.text = text
        return self

    text: str


def show(value: object) -> str:
    """Return a scalar as a message quotes it: escaped, redacted, and cut where it's long."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # that there was a login is often what is wrong
        value = redact(value, login="***@")
        return repr(value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…")
    if isinstance(value, int) and value.bit_length() > 64:
        return "a number beyond 64 bits"
    return value.text[:_LONGEST] if isinstance(value, RawFloat) else str(value)


def kind(value: object) -> str:
    """Return TOML's word for the type of `value`, with its article."""
    # A bool is an int to Python, and a datetime a date, so the order counts.
    for types, word in (
        (bool, "a boolean"),
        (str, "a string"),
        (int, "a whole number"),
        (float, "a number"),
        (list, "an array"),
        (dict, "a table"),
        (date, "a date"),
        (time, "a time"),
    ):
        if isinstance(value, types):
            return word
    return type(value).__name__


def key_path(path: Sequence[str | int]) -> str:
    """Return a path as TOML would write it, with indexes in brackets: `matrix.exclude[0].python`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + (part if re.fullmatch("[A-Za-z0-9_-]+", part) else show(part))
    return text


def table_name(path: Sequence[str | int]) -> str:
    """Return a table as people name it: `[slurm]`, or `matrix.exclude[0]` for one inside an array."""
    return key_path(path) if any(isinstance(part, int) for part in path) else f"[{key_path(path)}]"


def within(path: Sequence[str | int]) -> str:
    """Return "in [pip]", or "at the top level" for the root."""
    return f"in {table_name(path)}" if path else "at the top level"


def toml(value: Any) -> str:
    """Return an example from the schema as one would write it in TOML."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(member) for member in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(member)}" for key, member in value.items()) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


_OTHER_ENCODINGS = (
    *((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32")),
    *((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")),
)
# By the beginning of tomli's message.
_HINTS = (
    ("Unescaped '\\'", "write '\\\\' for a backslash, or put the text in single quotes"),
    ("Illegal character '\\n'", "close the string: a quote is missing at the line's end"),
    ("Invalid value", "text needs quotes; also check that every '[' and '{' before it is closed"),
    ("Unclosed array", "close the array with ']'"),
)


class Document(Struct, frozen=True):
    """A TOML document: its values, and where they stand in `file`.

    files  the file of each path, in a document that was merged of several
    """

    file: str
    data: Mapping[str, Any]
    positions: Mapping[Path, Position]
    files: Mapping[Path, str] = field(default_factory=dict)

    def place(self, path: Path, *, at_key: bool = False) -> Place:
        """Return the place of the value at `path`, or of its key."""
        position = self.positions[path]
        return _place(self.files.get(path, self.file), position.key if at_key else position.value)

    def leaves(self) -> Iterator[tuple[Path, Any]]:
        """Yield every value that is no table, with its path."""
        return _leaves(self.data, ())


def _leaves(table: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def merge(lower: Document, upper: Document) -> Document:
    """Merge two documents key by key: tables part by part, and of any other value the upper one stands."""
    replaced: set[Path] = set()
    data = _merge_tables(lower.data, upper.data, (), replaced)
    retained = [
        path for path in lower.positions if not any(path[:depth] in replaced for depth in range(1, len(path) + 1))
    ]
    files = {path: lower.files.get(path, lower.file) for path in retained}
    return Document(
        upper.file,
        data,
        {path: lower.positions[path] for path in retained} | dict(upper.positions),
        files | {path: upper.files.get(path, upper.file) for path in upper.positions},
    )


def _merge_tables(
    lower: Mapping[str, Any], upper: Mapping[str, Any], path: Path, replaced: set[Path]
) -> dict[str, Any]:
    data = dict(lower)
    for key, value in upper.items():
        before = data.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            data[key] = _merge_tables(before, value, (*path, key), replaced)
        else:
            replaced.add((*path, key))
            data[key] = value
    return data


def _place(file: str, mark: Mark) -> Place:
    return Place(file, mark.line, mark.column)


def decode(data: bytes, file: str) -> str:
    """Decode the text of a spec, or of another file that people write. Raises SpecError, with line and column, where it
    isn't UTF-8."""
    for mark, encoding in _OTHER_ENCODINGS:
        if data.startswith(mark):
            raise SpecError(f"the file is {encoding}, not UTF-8", hint="save it as UTF-8", place=Place(file, 1, 1))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
        hint = "save the file as UTF-8"
        raise SpecError(message, hint=hint, place=_place(file, mark_at(before, len(before)))) from None


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
        match = re.search("[0-9][0-9_]{600,}", text)
        place = _place(file, mark_at(text, match.start() if match else 0))
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
