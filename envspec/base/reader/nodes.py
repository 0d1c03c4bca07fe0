"""The kinds of value that describe a format, and their JSON Schema. The description of specs: `envspec.spec.schema`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from msgspec import NODEFAULT, Struct
from msgspec.structs import replace

from envspec.base.redact import redact

CONTROL = r"\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069"
"""The character class, in a regular expression, of what no text may contain: control characters and changes of reading
direction."""

CONTROL_BUT_LINES = r"\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069"
"""The same, with tab and newline allowed."""


class Text(Struct, frozen=True, kw_only=True):
    """A string.

    says        what a good value is, for messages ("a version X.Y")
    pattern     a regular expression for the whole string, in the syntax that Python and ECMA 262 share
    but         texts of the pattern that are refused nevertheless
    choices     the only values allowed
    multiline   newlines and tabs are allowed; other control characters never are
    date        a TOML date or date-time is allowed too
    secret      never quoted in a message: it may hold a password
    advice      from a bad value to a hint, or None
    read        from a value of this form to what a record gets; raises BadValue
    """

    doc: str = ""
    example: str
    says: str = "text"
    pattern: str | None = None
    but: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    max_length: int | None = None
    multiline: bool = False
    date: bool = False
    secret: bool = False
    default: str | None = None
    advice: Callable[[str], str | None] | None = None
    read: Callable[[Any], Any] | None = None

    @property
    def forbidden(self) -> str:
        """The class of the characters that no such string may hold, whatever its pattern says."""
        return CONTROL_BUT_LINES if self.multiline else CONTROL

    @property
    def expression(self) -> str:
        """The regular expression that the whole string matches."""
        if self.pattern is None:
            return f"[^{self.forbidden}]*"
        refused = "|".join(self.but).replace(".", r"\.")
        return rf"(?!(?:{refused})$){self.pattern}" if refused else self.pattern

    def forbidden_in(self, value: str) -> str | None:
        """Return the first character that no such string may hold."""
        # compiling a class takes as long as reading a small spec, and what is printable has none of them
        match = None if value.isprintable() else re.search(f"[{self.forbidden}]", value)
        return match and match[0]

    def fits(self, value: str) -> bool:
        """Return whether a string without forbidden characters has the pattern's form."""
        if self.pattern is None or value in self.but:
            return self.pattern is None
        pattern = self.pattern
        if not self.multiline:
            # what is refused already needs no class of its own, of which compiling one takes a millisecond
            pattern = pattern.replace(rf"[^\s{CONTROL}]", r"\S").replace(f"[^{CONTROL}]", r"[\s\S]")
        return re.fullmatch(pattern, value) is not None

    def allows(self, value: str) -> bool:
        """Return whether `value` is such a string."""
        if self.choices:
            return value in self.choices
        if self.max_length is not None and len(value) > self.max_length:
            return False
        return self.forbidden_in(value) is None and self.fits(value)


class Integer(Struct, frozen=True, kw_only=True):
    """A whole number from `minimum` to `maximum`, both included."""

    doc: str = ""
    example: int
    minimum: int
    maximum: int
    default: int | None = None


class Boolean(Struct, frozen=True, kw_only=True):
    """True or false."""

    doc: str = ""
    example: bool
    default: bool | None = None


class Number(Struct, frozen=True, kw_only=True):
    """A finite number, whole or not, from `minimum` to `maximum` where they're given."""

    doc: str = ""
    example: float
    minimum: float | None = None
    maximum: float | None = None


class Array(Struct, frozen=True, kw_only=True):
    """An array of `items`. `unique` refuses equal elements; one that isn't `ordered` is sorted in a record."""

    doc: str = ""
    items: Node
    example: tuple[Any, ...]
    min_items: int = 0
    unique: bool = False
    ordered: bool = True


class Table(Struct, frozen=True, kw_only=True):
    """A table with known keys: at least one of `any_of`, and every key of `required`. `record` is the type of
    its values where `table_of` describes it."""

    doc: str = ""
    keys: Mapping[str, Node]
    required: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    missing: str | None = None
    """The hint for a table that holds none of `any_of`."""
    not_empty: bool = False
    record: type[Struct] | None = None


class Names(Struct, frozen=True, kw_only=True):
    """A table whose keys are the user's own names, each of the form `names`, and whose values are all alike."""

    doc: str = ""
    names: Text
    values: Node
    not_empty: bool = False


class Either(Struct, frozen=True, kw_only=True):
    """A string, or a table for those who have more to say."""

    text: Text
    table: Table | Names

    @property
    def doc(self) -> str:
        return self.table.doc


Node: TypeAlias = Text | Boolean | Integer | Number | Array | Table | Names | Either


class BadValue(Exception):
    """The fault of a value, as the end of a sentence that begins with the value, and the remedy."""

    def __init__(self, reason: str, hint: str) -> None:
        self.reason = redact(reason)
        self.hint = hint
        super().__init__(self.reason)


# A record as the description of its table. A field is a key where its annotation has a node: of its name with hyphens,
# or of the name that msgspec's `field` gives it, in which a dot leads into a table.


class KeyField(Struct, frozen=True):
    """A field that is a key: its name, its path in the table, its node and its default; none is NODEFAULT."""

    field: str
    path: tuple[str, ...]
    node: Node
    default: object


@cache
def table_of(record: type[Struct]) -> Table:
    """Describe the table of a record. A field without a default is a required key.

    The record's docstring has the docs: the table's in its first paragraph, behind its name; a key's behind the field's
    name and two spaces; that of a table within behind `[key]`. Without docstrings (`python -OO`) there are none.
    """
    docs, required = _docs(record), []
    keys: dict[str, Node] = {}
    within: dict[str, dict[str, Node]] = {}
    for field in keys_of(record):
        *above, key = field.path
        for table in above:
            keys[table] = Table(doc=docs.get(f"[{table}]", ""), keys=within.setdefault(table, {}))
        (within[above[0]] if above else keys)[key] = _with_defaults(field.node, docs.get(field.field), field.default)
        required += [key] if field.default is NODEFAULT else []
    return Table(doc=docs[""], keys=keys, required=tuple(required), record=record)


@cache
def keys_of(record: type[Struct]) -> tuple[KeyField, ...]:
    """List the keys of a record, in order. Its annotations are texts, and resolving all would double a spec's time."""
    names, defaults = record.__struct_fields__, record.__struct_defaults__
    known = dict(zip(reversed(names), reversed(defaults), strict=False))
    return tuple(
        KeyField(
            name,
            tuple((name.replace("_", "-") if key == name else key).split(".")),
            eval(annotation, vars(sys.modules[record.__module__])).__metadata__[0],
            known.get(name, NODEFAULT),
        )
        for name, key in zip(names, record.__struct_encode_fields__, strict=True)
        for annotation in [record.__annotations__[name]]
        if annotation.startswith("Annotated[")
    )


def _with_defaults(node: Node, doc: str | None, default: object) -> Node:
    own: dict[str, Any] = {"doc": doc} if doc and not node.doc else {}
    if isinstance(node, (Text, Boolean, Integer)) and node.default is None:
        own |= {"default": default} if isinstance(default, (str, int)) and default != "" else {}
    return replace(node, **own) if own else node


def _docs(record: type[Struct]) -> dict[str, str]:
    head, _, rest = (record.__doc__ or "").partition("\n\n")
    docs, name = {"": " ".join(head.split()).rpartition("`: ")[2]}, "-"
    for line in rest.partition("\n\n")[0].splitlines():
        text = line.strip()
        begin, gap, after = text.partition("  ")
        # the lines that go on stand below the docs; Python 3.13 takes a docstring's indent away
        if gap and len(line) - len(text) <= 4:
            name, text = begin, after.strip()
        docs[name] = f"{docs.get(name, '')} {text}".strip()
    return docs


# Starts with a letter or digit, has no "..", and no dot at its end, so that it's always a safe name of one folder.
NAME = r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9_-]+)*"
# The host has no user part, so no URL with credentials matches; the path is printable ASCII without '?' and '#'.
_URL_PATH = r'/[!-"$->@-~]*'
WEB_URL = rf"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?(?:{_URL_PATH})?"
URL = rf"{WEB_URL}|file://{_URL_PATH}"
# A URL, or a folder by its path relative to the document's own: printable ASCII, as in a URL.
PLACE = rf"{URL}|\.\.?{_URL_PATH}"
# One line with something to see in it.
LINE = rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*"
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# How old a release must be.
AGE = "[1-9][0-9]{0,3} (?:hour|day|week)s?"


# A description made of `envspec.base.reader.nodes` as a JSON Schema, in keywords of draft-07 and later.


def schema_of(node: Node) -> dict[str, Any]:
    """Return the schema of one node, with all that is under it. In its patterns `$` is the very end, as in ECMA 262."""
    if isinstance(node, Text):
        return _text(node)
    if isinstance(node, (Integer, Number)):
        return _number(node)
    if isinstance(node, Boolean):
        return {"type": "boolean", "description": node.doc, "examples": [node.example], "default": node.default}
    if isinstance(node, Array):
        return _array(node)
    if isinstance(node, Either):
        return {"description": node.doc, "anyOf": [schema_of(node.text), schema_of(node.table)]}
    schema: dict[str, Any] = {"type": "object", "description": node.doc}
    if node.not_empty:
        schema["minProperties"] = 1
    if isinstance(node, Names):
        return schema | {"propertyNames": _text(node.names), "additionalProperties": schema_of(node.values)}
    return schema | _keys(node)


def _keys(node: Table) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if node.required:
        schema["required"] = list(node.required)
    if node.any_of:
        schema["anyOf"] = [{"properties": {key: {}}, "required": [key]} for key in node.any_of]
    schema["properties"] = {key: schema_of(value) for key, value in node.keys.items()}
    schema["additionalProperties"] = False
    return schema


def _array(node: Array) -> dict[str, Any]:
    example = [list(value) if isinstance(value, tuple) else value for value in node.example]
    schema: dict[str, Any] = {"type": "array", "description": node.doc, "examples": [example]}
    schema["items"] = schema_of(node.items)
    if node.min_items:
        schema["minItems"] = node.min_items
    if node.unique:
        schema["uniqueItems"] = True
    return schema


def _number(node: Integer | Number) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "integer" if isinstance(node, Integer) else "number",
        "description": node.doc,
        "examples": [node.example],
    }
    if node.minimum is not None:
        schema["minimum"] = node.minimum
    if node.maximum is not None:
        schema["maximum"] = node.maximum
    if isinstance(node, Integer) and node.default is not None:
        schema["default"] = node.default
    return schema


def _text(node: Text) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "description": node.doc, "examples": [node.example]}
    if node.choices:
        schema["enum"] = list(node.choices)
    else:
        schema["pattern"] = f"^(?:{node.expression})$"
    if node.max_length is not None:
        schema["maxLength"] = node.max_length
    if node.default is not None:
        schema["default"] = node.default
    return schema
