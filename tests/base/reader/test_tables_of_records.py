"""Tables that records describe: their keys, docs and defaults, and the records that are read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Annotated

import pytest
from msgspec import Struct, field

from envspec.base.errors import SpecError
from envspec.base.reader.document import parse_toml
from envspec.base.reader.nodes import Array, BadValue, Boolean, Either, Integer, Names, Number, Table, Text, table_of
from envspec.base.reader.structure import Checked


def _even(text: str) -> str:
    if len(text) % 2:
        raise BadValue("has an odd length", "add a letter")
    return text.upper()


class Reason(Struct, frozen=True):
    """`reason`: Why."""

    why: Annotated[str, Text(doc="The reason itself.", example="a")]
    until: Annotated[str, Text(doc="Its end.", example="b")] = ""


class Demo(Struct, frozen=True):
    """`[demo]`: A table, in a docstring
    of two lines.

    name      The name, whose doc
              has a second line.
    [cache]   The cache.
    size      Its size.

    What follows is for developers:
    name      not a doc
    """

    place: str
    name: Annotated[str, Text(example="ab", read=_even)]
    text: Annotated[str | None, Text(doc="Its own doc.", example="a")] = None
    most_of_all: Annotated[int, Integer(doc="A number.", example=1, minimum=0, maximum=9)] = 0
    is_on: Annotated[bool, Boolean(doc="A switch.", example=True)] = False
    size: Annotated[float | None, Number(example=1)] = field(name="cache.max-size", default=None)
    folder: Annotated[str, Text(doc="A folder.", example="a")] = field(name="cache.folder", default="/a")
    words: Annotated[frozenset[str], Array(doc="Words.", items=Text(example="a"), example=("a",))] = frozenset()
    rows: Annotated[tuple[str, ...], Array(doc="Rows.", items=Text(example="a"), example=("a",), ordered=False)] = ()
    why: Annotated[
        Mapping[str, Reason],
        Names(
            doc="Reasons.",
            names=Text(example="a", read=str.upper),
            values=Either(text=Text(example="a"), table=table_of(Reason)),
        ),
    ] = field(default_factory=dict)


def test_keys_docs_and_defaults_are_of_the_fields() -> None:
    table = table_of(Demo)
    assert list(table.keys) == ["name", "text", "most-of-all", "is-on", "cache", "words", "rows", "why"]
    assert (table.doc, table.required) == ("A table, in a docstring of two lines.", ("name",))
    assert [table.keys[key].doc for key in ("name", "text", "cache")] == [
        "The name, whose doc has a second line.",
        "Its own doc.",
        "The cache.",
    ]
    assert table.keys["most-of-all"] == Integer(doc="A number.", example=1, minimum=0, maximum=9, default=0)
    assert table.keys["is-on"] == Boolean(doc="A switch.", example=True, default=False)
    cache = table.keys["cache"]
    assert isinstance(cache, Table)
    size, folder = cache.keys.values()
    assert isinstance(folder, Text)
    assert (size.doc, folder.default) == ("Its size.", "/a")


def read(text: str) -> Demo:
    checked = Checked(parse_toml(text, "demo.toml"), table_of(Demo))
    found = checked.record(Demo, place="here")
    checked.raise_problems()
    return found


def test_a_record_has_what_its_table_says() -> None:
    assert read('name = "ab"') == Demo("here", "AB")
    found = read("""
name = "ab"
most-of-all = 3
is-on = true
words = ["b", "a", "b"]
rows = ["b", "a"]
cache = { max-size = 2 }
why = { x = "because", y = { why = "so", until = "now" } }
""")
    assert found == Demo(
        "here",
        "AB",
        most_of_all=3,
        is_on=True,
        size=2.0,
        words=frozenset("ab"),
        rows=("a", "b"),
        why={"X": Reason("because"), "Y": Reason("so", "now")},
    )


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('name = "abc"', "demo.toml:1:8", "name: 'abc' has an odd length"),
        ("text = 'a'", "demo.toml:1:1", "lacks the key 'name'"),
        ('name = "ab"\nwhy.x = { until = "c" }', "demo.toml:2:9", "lacks the key 'why'"),
    ],
)
def test_what_is_wrong_has_its_place(text: str, where: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        read(text)
    assert str(caught.value.place) == where


def test_no_reader_needs_docstrings() -> None:
    code = "import envspec.spec.schema, envspec.review.policy.schema, envspec.configuration.user_config"
    subprocess.run([sys.executable, "-OO", "-c", code], check=True)
