"""A lock's text as TOML, and the keys and types of its tables: the common part of the readers of all versions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import LockError, Place
from envspec.base.texts import UNSEEN, is_seen, printable
from envspec.lock import keys
from envspec.lock.listed import REQUIREMENTS, TABLES
from envspec.lock.toml_text import key as toml_key, string, unseen
from envspec.packages.requirement import is_requirement

UNKNOWN = "a newer envspec may have written it: update envspec"
RELOCK = "restore it from git, or delete it and run `envspec lock`"

Where = tuple[str, int]
"""A table's header line, and its number among equal headers, from 0."""

_TYPE_NAMES = {str: "a string", int: "an integer", list: "an array", dict: "a table", bool: "true"}


class LockText:
    """One reading of one text. It holds what messages need, so that the other code doesn't carry it."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path

    def table(self) -> dict[str, Any]:
        """Return the whole text's table. Raises LockError where it isn't TOML, or hides characters."""
        try:
            data = read_toml(self.text)
        except Unreadable as error:
            place = Place(self.path, error.line, error.column)
            raise LockError(f"the lock is not TOML: {error}", place=place, hint=RELOCK) from None
        self.refuse_unseen(data)
        return data

    def refuse_unknown(self, tables: Iterable[str], known: Collection[str]) -> None:
        """Refuse top-level keys that the format doesn't have."""
        for name in tables:
            if name not in known:
                match = re.search(rf"^\[{{0,2}}{re.escape(toml_key(name))}\b", self.text, re.MULTILINE)
                line = self.text.count("\n", 0, match.start()) + 1 if match else 0
                raise LockError(f'unknown table "{name}"', place=Place(self.path, line), hint=UNKNOWN)

    def fail(self, problem: str, where: Where, key: str | None = None, hint: str | None = None) -> NoReturn:
        """Raise a LockError with the line of the key, or else of the table's header."""
        header, nth = where
        line = 0
        starts = [m.start() for m in re.finditer(f"^{re.escape(header)}$", self.text, re.MULTILINE)]
        if len(starts) > nth:
            start = starts[nth]
            end = self.text.find("\n[", start)
            inside = key and re.compile(rf"(?:^|[{{,] ){re.escape(key)} = ", re.MULTILINE).search(
                self.text, start, end if end > 0 else len(self.text)
            )
            line = self.text.count("\n", 0, inside.start() if inside else start) + 1
        raise LockError(f"{header}: {problem}", place=Place(self.path, line), hint=hint or RELOCK)

    def check(self, table: Any, types: Mapping[str, type], required: Sequence[str], where: Where) -> Mapping[str, Any]:
        """Check a table: every key known and of its type, no required key missing, lists (except of tables) of
        strings."""
        if not isinstance(table, dict):
            self.fail("this must be a table", where)
        checked: Mapping[str, Any] = table
        value: Any
        for key, value in checked.items():
            expected = types.get(key)
            if expected is None:
                self.fail(f'unknown key "{key}"', where, key, UNKNOWN)
            actual = type(value)
            if actual is not expected:
                self.fail(f"{key} must be {_TYPE_NAMES[expected]}, not {value!r}", where, key)
            if key in TABLES:
                for row in value:
                    self.check(row, dict.fromkeys(TABLES[key], str), TABLES[key], where)
            elif expected is list and key not in keys.ROWS:
                for element in value:
                    if type(element) is not str:
                        self.fail(f"{key} must hold strings, not {element!r}", where, key)
            if key in REQUIREMENTS:
                for text in REQUIREMENTS[key](value):
                    if not is_requirement(text):
                        self.fail(f"{printable(text)[:80]!r} in {key} isn't a requirement", where, key)
            if key == "url":
                try:
                    urlsplit(value)
                except ValueError:
                    self.fail(f"url isn't an address: {printable(value)[:80]!r}", where, key)
            if key in keys.SHAPES:
                shape, description = keys.SHAPES[key]
                for text in value if expected is list else (value,):
                    if not shape.fullmatch(text):
                        self.fail(
                            f"{key} must {'hold' if expected is list else 'be'} {description}, not {text!r}", where, key
                        )
        for key in required:
            if key not in table:
                self.fail(f"{key} is missing", where)
        return checked

    def refuse_unseen(self, data: Any) -> None:
        """Refuse characters that a reader of the lock wouldn't see, or that a terminal shows otherwise."""
        # most locks have neither such a character nor an escape that could stand for one, so none of their values has
        if "\\" not in self.text and is_seen(self.text.replace("\n", "")):
            return
        for path, value in unseen(data):
            line = self.text.count("\n", 0, max(self.text.find(string(value)), 0)) + 1
            character = next(iter(UNSEEN.findall(value)))
            problem = f"{path} contains the invisible character {character!a}: {printable(value[:80])}"
            raise LockError(problem, place=Place(self.path, line), hint=RELOCK)
