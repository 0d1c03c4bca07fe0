"""Checks of a TOML document against its format: unknown and missing keys, types, patterns, choices, limits.

It refuses what the JSON Schema refuses, and nothing else (the tests hold the two together).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

from envspec.base.documents import finite_number
from envspec.base.errors import MOST, Place, SpecError, SpecErrors
from envspec.base.reader.document import Document, key_path, kind, show, table_name, toml, within
from envspec.base.reader.nodes import (
    Array,
    BadValue,
    Boolean,
    Either,
    Integer,
    Names,
    Node,
    Number,
    Table,
    Text,
    keys_of,
)
from envspec.base.reader.positions import Path
from envspec.base.redact import redact
from envspec.base.texts import nearest

_Record = TypeVar("_Record", bound=Struct)


class Violation(Struct, frozen=True):
    """One thing that is wrong, at `path`.

    at_key    the key is wrong, not its value
    hint      what to do; a function where the answer is slow to compute
    unusable  nothing at or under `path` can be judged any further; False for a table that only lacks a key
    """

    path: Path
    message: str
    hint: str | Callable[..., str | None] | None = None
    at_key: bool = False
    unusable: bool = True


def violations(document: Mapping[str, Any], form: Table) -> list[Violation]:
    """Return everything in `document`, as a TOML parser read it, that a form doesn't allow."""
    faults = _table(form, document, ())
    return [
        replace(violation, hint=partial(violation.hint, form)) if callable(violation.hint) else violation
        for violation in faults
    ]


def _check(node: Node, value: Any, path: Path) -> Iterator[Violation]:
    if isinstance(node, Text):
        return _text(node, value, path)
    if isinstance(node, (Integer, Number)):
        return _number(node, value, path)
    if isinstance(node, Boolean):
        return iter(() if isinstance(value, bool) else (_wrong_type(node, value, path, "true or false"),))
    if isinstance(node, Array):
        return _array(node, value, path)
    if isinstance(node, Either):
        return _check(node.table if isinstance(value, dict) else node.text, value, path)
    return _names(node, value, path) if isinstance(node, Names) else _table(node, value, path)


def _wrong_type(node: Node, value: Any, path: Path, expected: str) -> Violation:
    quoted = "" if _secret(node) or isinstance(value, (list, dict)) else f": {show(value)}"
    return Violation(
        path, f"{key_path(path)} must be {expected}, not {kind(value)}{quoted}", _type_hint(node, value, path)
    )


def _secret(node: Node) -> bool:
    if isinstance(node, (Array, Names)):
        return _secret(node.items if isinstance(node, Array) else node.values)
    return isinstance(node, Text) and node.secret


def _type_hint(node: Node, value: Any, path: Path) -> str:
    key = next(part for part in reversed(path) if isinstance(part, str))
    if isinstance(node, Text) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return f'put it in quotes: "{show(value)}"'
    assign = "" if isinstance(path[-1], int) else f"{key} = "
    if isinstance(node, Array) and isinstance(value, str):
        return f"put it in brackets: {assign}[{toml(redact(value)[:60])}]"
    if isinstance(node, (Text, Boolean, Integer, Number, Array)):
        return f"for example: {assign}{toml(node.example)}"
    if isinstance(node, Names) and isinstance(node.values, (Text, Either)):
        value_of = node.values.text if isinstance(node.values, Either) else node.values
        return f"for example: {key} = {{ {node.names.example} = {toml(value_of.example)} }}"
    return (
        "write a table: { … }" if any(isinstance(part, int) for part in path) else f"write a table: [{key_path(path)}]"
    )


def _text(node: Text, value: Any, path: Path) -> Iterator[Violation]:
    if node.date and isinstance(value, date):
        return
    if not isinstance(value, str):
        yield _wrong_type(node, value, path, "a string")
        return
    problem = _text_fault(node, value)
    if problem is not None:
        fault, hint = problem
        yield Violation(path, f"{key_path(path)}: {'the value' if node.secret else show(value)} {fault}", hint)


def _text_fault(node: Text, value: str) -> tuple[str, str | None] | None:
    control = node.forbidden_in(value)
    if control:
        return f"has the control character U+{ord(control):04X}", "remove it"
    if node.choices and value not in node.choices:
        meant = nearest(value, node.choices)
        hint = f"did you mean {meant!r}?" if meant else f"for example: {node.example}"
        return f"is not one of {', '.join(node.choices)}", _advice(node, value) or hint
    if node.choices:
        return None
    if not node.fits(value):
        return f"is not {node.says}", _advice(node, value) or f"for example: {node.example}"
    if node.max_length is not None and len(value) > node.max_length:
        return f"is longer than {node.max_length} characters", "make it shorter"
    return None


def _advice(node: Text, value: str) -> str | None:
    return node.advice(value) if node.advice else None


def _number(node: Integer | Number, value: Any, path: Path) -> Iterator[Violation]:
    whole = isinstance(node, Integer)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        yield _wrong_type(node, value, path, "a whole number" if whole else "a number")
        return
    low, high = node.minimum, node.maximum
    if not whole and finite_number(value) is None:
        yield Violation(path, f"{key_path(path)}: {show(value)} is not finite", f"for example: {node.example}")
    elif (low is not None and value < low) or (high is not None and value > high):
        limits = " and ".join(
            [f"at least {low}"] * (low is not None) + [f"at most {high}"] * (high is not None),
        )
        yield Violation(path, f"{key_path(path)}: {show(value)} is out of range", f"it must be {limits}")


def _array(node: Array, value: Any, path: Path) -> Iterator[Violation]:
    if not isinstance(value, list):
        yield _wrong_type(node, value, path, "an array")
        return
    if len(value) < node.min_items:
        yield Violation(path, f"{key_path(path)} is empty", f"leave the key out, or write {toml(node.example)}")
    seen = set()
    for index, member in enumerate(value):
        yield from _check(node.items, member, (*path, index))
        identity = _identity(member) if node.unique else index
        if identity in seen:
            shown = "the value" if isinstance(member, (list, dict)) or _secret(node.items) else show(member)
            yield Violation((*path, index), f"{key_path(path)}: {shown} is listed twice", "remove one of them")
        seen.add(identity)


def _identity(value: Any) -> Hashable:
    """Return a hashable key: equal values have equal keys."""
    if isinstance(value, list):
        return (list, *map(_identity, value))
    if isinstance(value, dict):
        return (dict, frozenset((key, _identity(member)) for key, member in value.items()))
    # JSON, unlike Python, tells true from 1.
    return (isinstance(value, bool), value)


def _names(node: Names, value: Any, path: Path) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _wrong_type(node, value, path, "a table")
        return
    if node.not_empty and not value:
        yield Violation(
            path, f"{table_name(path)} is empty", f"add for example [{key_path(path)}.{node.names.example}]"
        )
    for key, member in value.items():
        fault = _text_fault(node.names, key)
        if fault is not None:
            yield Violation((*path, key), f"{table_name(path)}: the name {show(key)} {fault[0]}", fault[1], at_key=True)
        yield from _check(node.values, member, (*path, key))


def _table(node: Table, value: Any, path: Path) -> Iterator[Violation]:
    if not isinstance(value, dict):
        yield _wrong_type(node, value, path, "a table")
        return
    if node.not_empty and not value:
        yield Violation(path, f"{table_name(path)} is empty", f"known keys: {', '.join(node.keys)}")
    for key in node.required:
        if key not in value:
            yield Violation(path, *_missing(node, key, path), unusable=False)
    if node.any_of and not any(key in value for key in node.any_of):
        tables = " nor ".join(f"[{key}]" for key in node.any_of)
        yield Violation(path, f"the spec has neither {tables}", node.missing, unusable=False)
    for key, member in value.items():
        if key in node.keys:
            yield from _check(node.keys[key], member, (*path, key))
        else:
            message = f"unknown key {show(key)} {within(path)}"
            yield Violation((*path, key), message, partial(_unknown, node, key), at_key=True)


def _missing(node: Table, key: str, path: Path) -> tuple[str, str]:
    child = node.keys[key]
    if isinstance(child, Table):
        required = child.required[0]
        example = child.keys[required]
        assert isinstance(example, Text)
        return f"the spec has no [{key}]", f"add one, for example:\n  [{key}]\n  {required} = {toml(example.example)}"
    assert isinstance(child, (Text, Array, Number))
    return f"{table_name(path)} lacks the key {key!r}", f"add for example: {key} = {toml(child.example)}"


def _unknown(node: Table, key: str, form: Table) -> str:
    meant = nearest(key, node.keys)
    if meant:
        return f"did you mean {meant!r}?"
    for name, table in form.keys.items():
        if isinstance(table, Table) and key in table.keys and table is not node:
            return f"{key!r} belongs in [{name}]"
    return f"known keys: {', '.join(node.keys)}"


# A document whose structure has been checked: what can be judged further, and every problem found so far.


class Checked:
    """The sound parts of a document, so that one mistake is reported once and hides no other.

    `problem` gathers problems, and `raise_problems` raises them all.
    """

    def __init__(self, document: Document, form: Table) -> None:
        self.document = document
        self._problems: list[tuple[SpecError, str | Callable[[], str | None] | None]] = []
        faults = violations(document.data, form)
        self._unusable = frozenset(violation.path for violation in faults if violation.unusable)
        for violation in faults:
            self.problem(violation.path, violation.message, violation.hint, at_key=violation.at_key)

    def sound(self, *path: str | int) -> bool:
        """Return whether everything at `path` and above it is usable. What is under it may not be."""
        return not any(path[:length] in self._unusable for length in range(1, len(path) + 1))

    def sound_throughout(self, *path: str | int) -> bool:
        """Return whether everything at, above and under `path` is usable."""
        return self.sound(*path) and not any(bad[: len(path)] == path for bad in self._unusable)

    def has(self, *path: str | int) -> bool:
        """Return whether the user wrote something at `path`, sound or not."""
        return path in self.document.positions

    def value(self, *path: str | int) -> Any:
        """Return the value at `path`, None where it is missing or unusable."""
        value: Any = self.document.data
        if not (self.has(*path) and self.sound(*path)):
            return None
        for part in path:
            value = value[part]
        return value

    def table(self, *path: str | int) -> dict[str, Any]:
        """Return the sound keys of a table, empty where it is missing or unusable."""
        return {str(key[-1]): value for key, value in self.children(*path)}

    def children(self, *path: str | int) -> list[tuple[Path, Any]]:
        """Return the sound keys of a table, or elements of an array, each with its path."""
        value = self.value(*path)
        if value is None:
            return []
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [((*path, key), child) for key, child in pairs if self.sound(*path, key)]

    def record(self, form: type[_Record], *table: str | int, **own: object) -> _Record:
        """Make the record of a table: a field has the sound value of its key, or its default; `own` are ready."""
        given = dict(own)
        for field in keys_of(form):
            if field.field not in own:
                value = self.read(field.node, *table, *field.path)
                # a required key that is missing is a problem already, and none of what follows counts
                if value is not None or field.default is NODEFAULT:
                    given[field.field] = frozenset(value) if isinstance(field.default, frozenset) else value
        return form(**given)

    def read(self, node: Node, *path: str | int) -> Any:
        """Read the sound value of a node, frozen, None where there is none. Problems are noted."""
        value = self.value(*path)
        if value is None:
            return None
        if isinstance(node, Either):
            record = node.table.record if isinstance(node.table, Table) else None
            if record and not isinstance(value, dict):
                return record(value)
            node = node.table if isinstance(value, dict) else node.text
        if isinstance(node, Array):
            items = [self.read(node.items, *member) for member, _ in self.children(*path)]
            return tuple(items if node.ordered else sorted(items))
        if isinstance(node, Names):
            name_of = node.names.read or str
            return MappingProxyType(
                {name_of(member[-1]): self.read(node.values, *member) for member, _ in self.children(*path)}
            )
        if isinstance(node, Table):
            return self.record(node.record, *path) if node.record else MappingProxyType(self.table(*path))
        if isinstance(node, Number):
            return float(value)
        try:
            return node.read(value) if isinstance(node, Text) and node.read else value
        except BadValue as error:
            self.problem(path, f"{key_path(path)}: {show(value)} {error.reason}", error.hint)
            return None

    def place(self, *path: str | int, at_key: bool = False) -> Place:
        return self.document.place(path, at_key=at_key)

    def problem(
        self, path: Path, message: str, hint: str | Callable[[], str | None] | None = None, *, at_key: bool = False
    ) -> None:
        """Note a problem. A hint that is a function is called only for a problem that is reported."""
        self._problems.append((SpecError(message, place=self.place(*path, at_key=at_key)), hint))

    def raise_problems(self) -> None:
        """Raise what was found: nothing, one SpecError, or SpecErrors in the file's order."""
        in_order = sorted(self._problems, key=_line_and_column)
        for error, hint in in_order[:MOST]:
            error.hint = hint() if callable(hint) else hint
        errors = [error for error, _ in in_order]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise SpecErrors(errors)


def _line_and_column(problem: tuple[SpecError, object]) -> tuple[int, int]:
    error = problem[0]
    return (error.place.line, error.place.column) if error.place else (0, 0)
