"""Places in TOML texts: every path a TOML parser sees is located, and the text there begins that value."""

import datetime
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import tomli
import tomlkit
from hypothesis import example, given, strategies as st

from envspec.base.reader.positions import MAX_DEPTH, Mark, Path, TooDeep, first_duplicate, toml_positions, too_deep

TRICKY = '''# a comment = [ "with", { brackets = 1 }
title = "x # not a comment" # but this is
"quoted . key" = 'C:\\path'
'literal "key"'.dotted . third = 1979-05-27 07:32:00Z # a space in a time
multi = """ ""two"" quotes \\""" inside
  and five at the end"""""
raw = \'\'\'
it''s = [\'\'\'\'
array = [ # comment ]
  1, [2, 3,], # another
  { a = { b = "}" }, "c]" = [ ] },
  "last" ]   # done

[ servers . alpha ] # implies servers
ip = "10.0.0.1"
ports = [8000,\t8001]
[servers]
count = 0x10
[[fruit]]
name = "apple"
[[fruit.variety]]
name = "red"
[[fruit.variety]]
name = "green"
[[fruit]]
name = "b\\u00e4nana"
[fruit.physical]
"gr\\u00f6\\u00dfe" = 1.5e3
'''


def mark(text: str, needle: str, nth: int = 0) -> Mark:
    offset = -1
    for _ in range(nth + 1):
        offset = text.index(needle, offset + 1)
    before = text[:offset]
    return Mark(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def test_tricky_text() -> None:
    found = toml_positions(TRICKY)
    assert set(found) == set(paths(tomli.loads(TRICKY)))
    assert found["title",].key == mark(TRICKY, "title")
    assert found["quoted . key",].value == mark(TRICKY, "'C:")
    assert found['literal "key"',].key == mark(TRICKY, "'literal")
    assert found['literal "key"', "dotted", "third"].key == mark(TRICKY, "third")
    assert found['literal "key"', "dotted", "third"].value == mark(TRICKY, "1979")
    assert found["array", 1, 1].value == mark(TRICKY, "3,]")
    assert found["array", 2, "a", "b"].value == mark(TRICKY, '"}"')
    assert found["array", 2, "c]"].key == mark(TRICKY, '"c]"')
    assert found["array", 3].value == found["array", 3].key == mark(TRICKY, '"last"')
    assert found["servers",].value == mark(TRICKY, "[servers]")
    assert found["servers", "alpha"].key == mark(TRICKY, "alpha")
    assert found["servers", "alpha"].value == mark(TRICKY, "[ servers")
    assert found["servers", "alpha", "ports", 1].value == mark(TRICKY, "8001")
    assert found["fruit", 1].value == mark(TRICKY, "[[fruit]]", 1)
    assert found["fruit", 0, "variety", 1, "name"].value == mark(TRICKY, '"green"')
    assert found["fruit", 1, "physical", "größe"].value == mark(TRICKY, "1.5e3")


def test_columns_count_characters() -> None:
    found = toml_positions('"ä𝄞" = { b = "é", c = 1 }\r\nd = 2\r\n')
    assert found["ä𝄞", "c"].key == Mark(1, 19)
    assert found["d",].value == Mark(2, 5)


def test_too_deep() -> None:
    fine = "x = " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)
    assert len(toml_positions(fine)) == MAX_DEPTH and too_deep(fine) is None
    deep = "\nx = " + "[" * 60 + "]" * 60
    with pytest.raises(TooDeep):
        toml_positions(deep)
    assert too_deep(deep) == Mark(2, 5 + MAX_DEPTH)
    assert too_deep(".".join("a" * 5000) + " = 1") == Mark(1, 2 * MAX_DEPTH + 1)


def test_first_duplicate() -> None:
    found = first_duplicate("[a]\nx = 1\n[[b]]\ny = 1\n[[b]]\ny = 1\n[c]\n x = 1\n'x' = 2\n[[[ broken")
    assert found is not None
    assert (found.path, found.first, found.second) == (("c", "x"), Mark(8, 2), Mark(9, 1))
    assert first_duplicate("[a]\n[a.b]\n[b]\n") is None
    assert first_duplicate("[a]\n= = =") is None


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from paths(item, (*path, index))


def at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def begins(text: str, value: Any) -> bool:
    """Tells whether some first part of `text` is the TOML for `value`."""
    for end in range(1, len(text) + 1):
        if end == len(text) or text[end] in ",]}#\n\r \t":
            try:
                if same(tomli.loads("x = " + text[:end])["x"], value):
                    return True
            except tomli.TOMLDecodeError:
                pass
    return False


def check(text: str) -> None:
    data = tomli.loads(text)
    found = toml_positions(text)
    assert set(found) == set(paths(data))
    lines = text.split("\n")
    for path, position in found.items():
        if path == ():
            continue
        value = at(data, path)
        key = "\n".join([lines[position.key.line - 1][position.key.column - 1 :], *lines[position.key.line :]])
        rest = "\n".join([lines[position.value.line - 1][position.value.column - 1 :], *lines[position.value.line :]])
        if isinstance(path[-1], str):
            assert key_begins(key, path[-1])
        if not isinstance(value, (dict, list)):
            assert begins(rest, value)
        elif not (rest.startswith("[") or (isinstance(value, dict) and rest.startswith("{"))):
            # Only implied by a dotted key.
            assert isinstance(value, dict) and any(key_begins(rest, part) for part in path if isinstance(part, str))


def key_begins(text: str, key: str) -> bool:
    for end in range(1, len(text) + 1):
        if end == len(text) or text[end] in ".]= \t":
            try:
                if list(tomli.loads(text[:end] + " = 1")) == [key]:
                    return True
            except tomli.TOMLDecodeError:
                pass
    return False


KEYS = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["a", "b", "c-d", "1", "a.b", '"'])
STRINGS = st.text(st.characters(codec="utf-8"), max_size=6)
SCALARS = st.one_of(
    STRINGS,
    st.integers(-(2**63), 2**63 - 1),
    st.booleans(),
    st.floats(),
    st.dates(min_value=datetime.date(1000, 1, 1)),
    st.datetimes(min_value=datetime.datetime(1000, 1, 1)),  # noqa: DTZ001 # TOML's local times have no zone
    st.times(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


@pytest.mark.slow
@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_documents_of_tomlkit(document: dict[str, Any]) -> None:
    check(tomlkit.dumps(document))


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    """Writes documents in every form TOML has, with blanks and comments wherever they may stand."""
    space = st.sampled_from(["", " ", "\t", "  "])
    blank: st.SearchStrategy[str] = st.sampled_from(["", " ", "\n", " # ] } \"'\n", "\r\n\t"])

    def quoted(text: str) -> str:
        return '"' + re.sub(r'[\x00-\x1f"\\\x7f]', lambda found: f"\\U{ord(found[0]):08x}", text) + '"'

    def string(text: str) -> str:
        forms = [quoted(text)]
        plain = all((char >= " " and char != "\x7f") or char in "\n\t" for char in text)
        if plain and "'" not in text and "\n" not in text:
            forms.append(f"'{text}'")
        if plain and "'''" not in text:
            forms.append(f"'''\n{text}'''")
        if plain and '"""' not in text and "\\" not in text:
            forms.append(f'"""\n{text}"""')
        return str(draw(st.sampled_from(forms)))

    def key(name: str) -> str:
        bare = re.fullmatch("[A-Za-z0-9_-]+", name) and draw(st.booleans())
        return name if bare else quoted(name)

    def value(item: Any) -> str:
        if isinstance(item, str):
            return string(item)
        if isinstance(item, bool):
            return str(item).lower()
        if isinstance(item, list):
            inner = ",".join(draw(blank) + value(one) + draw(blank) for one in item)
            last = draw(st.sampled_from(["", ","])) if item else ""
            return "[" + draw(blank) + inner + last + draw(blank) + "]"
        if isinstance(item, dict):
            inner = ",".join(draw(space) + pair(name, one) + draw(space) for name, one in item.items())
            return "{" + draw(space) + inner + "}"
        return str(item)

    def pair(name: str, item: Any) -> str:
        if isinstance(item, dict) and len(item) == 1 and draw(st.booleans()):
            return key(name) + draw(space) + "." + draw(space) + pair(*next(iter(item.items())))
        return key(name) + draw(space) + "=" + draw(space) + value(item)

    def table(path: list[str], items: dict[str, Any]) -> str:
        later = {
            name
            for name, item in items.items()
            if (
                isinstance(item, dict)
                or (isinstance(item, list) and item and all(isinstance(one, dict) for one in item))
            )
            and draw(st.booleans())
        }
        text = "".join(
            draw(blank) + pair(name, item) + draw(space) + "\n" for name, item in items.items() if name not in later
        )
        for name in [name for name in items if name in later]:
            below = [*path, name]
            header = (draw(space) + "." + draw(space)).join(map(key, below))
            tables = items[name] if isinstance(items[name], list) else [items[name]]
            left, right = ("[[", "]]") if isinstance(items[name], list) else ("[", "]")
            for one in tables:
                text += draw(blank) + left + draw(space) + header + draw(space) + right + " # [x]\n" + table(below, one)
        return text

    scalars = STRINGS | st.integers(-99, 99) | st.booleans() | st.sampled_from([1.5, datetime.date(2026, 11, 1)])
    inner = st.recursive(
        scalars, lambda one: st.lists(one, max_size=3) | st.dictionaries(KEYS, one, max_size=3), max_leaves=8
    )
    return table([], draw(st.dictionaries(KEYS, inner, max_size=4)))


@given(toml_texts())
@example(TRICKY)
def test_documents_in_every_form(text: str) -> None:
    check(text)
