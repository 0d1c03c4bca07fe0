"""A spec file as a TOML document whose every value has a place. A broken file gives one clear error."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli

from envspec.base.errors import EnvspecError, Place, SpecError, StorageError
from envspec.base.redact import redact
from envspec.base.texts import nearest
from envspec.spec.messages import RawFloat, dotted, table_name
from envspec.spec.positions import Mark, Path, Position, TooDeep, first_duplicate, mark_at, toml_positions, too_deep

if TYPE_CHECKING:
    from pathlib import Path as FilePath

MAX_BYTES = 1 << 20
"""The largest spec, in bytes. Real ones have a few thousand; a larger file is something else, given by mistake."""

_OTHER_ENCODINGS = ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
# By the beginning of tomli's message.
_HINTS = (
    ("Unescaped '\\'", "write '\\\\' for a backslash, or put the text in single quotes"),
    ("Illegal character '\\n'", "close the string: a quote is missing at the line's end"),
    ("Invalid value", "text needs quotes; also check that every '[' and '{' before it is closed"),
    ("Unclosed array", "close the array with ']'"),
)
_SMALLEST = """write one; the smallest is
  [env]
  python = "3.12"
  [pip]
  dependencies = ["torch==2.9.*"]
  [targets.cpu]
  platform = "linux-64\""""
# What the user mistyped, rather than storage that failed.
_BAD_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


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


def read_bytes(path: str) -> bytes:
    """Read a spec file, at most `MAX_BYTES` of it. Raises SpecError for what can't be a spec, else StorageError."""
    if not path:
        raise SpecError("the spec's path is empty", hint="give a spec, such as specs/NAME.toml")
    try:
        _refuse_link_out(path)
        with open(path, "rb", opener=_open) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise SpecError("not a regular file", hint="give a spec, such as specs/NAME.toml", place=Place(path))
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        hint = f"give a spec in it, such as {path}/NAME.toml"
        raise SpecError("it's a folder, not a spec", hint=hint, place=Place(path)) from None
    except ValueError:
        raise SpecError(f"{path!r} can't be a file's name", hint="take the NUL character out") from None
    except OSError as error:
        raise _unreadable(path, error) from None
    if len(data) > MAX_BYTES:
        raise SpecError(
            "larger than 1 MiB, so it can't be a spec", hint="give a spec, such as specs/NAME.toml", place=Place(path)
        )
    return data


def _refuse_link_out(path: str) -> None:
    """Refuse a spec that a link takes out of its git repository, or out of the current folder: it may have come with
    the repository, and what a spec says is shown."""
    whole, real = os.path.abspath(path), os.path.realpath(path)
    above = os.path.dirname(whole)
    while not os.path.lexists(os.path.join(above, ".git")) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    root = above if os.path.lexists(os.path.join(above, ".git")) else os.getcwd()
    if _is_below(whole, root) and not _is_below(real, os.path.realpath(root)):
        raise SpecError(
            f"a link leads from here out of {root}, and isn't followed",
            hint="if it's yours, give the path that it leads to",
            place=Place(path),
        )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def _open(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a named pipe would wait for ever.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _unreadable(path: str, error: OSError) -> EnvspecError:
    reason = (error.strerror or str(error)).lower()
    if error.errno not in _BAD_PATH:
        return StorageError(f"can't be read: {reason}", hint="check the file's permissions", place=Place(path))
    from pathlib import Path as FilePath

    wanted = FilePath(path)
    there: dict[str, FilePath] = {}
    with suppress(OSError):
        for found in (*wanted.parent.glob("*.toml"), *wanted.parent.glob("specs/*.toml")):
            there.setdefault(found.name, found)
            there.setdefault(found.stem, found)
    meant = nearest(wanted.name, there)
    hint = f"did you mean {there[meant]}?" if meant else _SMALLEST
    return SpecError(f"can't be read: {reason}", hint=hint, place=Place(path))


def project_root(spec: str | os.PathLike[str]) -> FilePath:
    """Give the folder that a spec belongs to: the one that contains `specs/`, or else the spec's own. Absolute."""
    from pathlib import Path as FilePath

    folder = FilePath(spec).absolute().parent
    return folder.parent if folder.name == "specs" else folder


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
        raise SpecError("nested too deeply", hint="a spec has six levels at most", place=place) from None
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
            what = table_name(twice.path) if is_table else f"the key {dotted(twice.path)}"
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
