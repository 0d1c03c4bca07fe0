"""Specs that mean harm: whatever a spec puts into a recipe is refused, or stays text.

Every format's files are read back by readers that aren't envspec's: BuildKit's parser, a shell, Lua, Nix, and the
parsers of TOML, YAML and JSON. The values have to come back equal, and there may be nothing besides: each file is
compared with that of a harmless twin, the same spec with plain words in place of free text.

A new format needs its reader in READERS; without one its files fail here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import tomli
import yaml
from hostile_specs import (
    PIECES,
    QUICKLY,
    SLOWLY,
    Names,
    Project,
    Words,
    harmless_plan,
    hostile,
    is_inert,
    must_be_clear,
    odd_names,
    project,
    values_of,
    variables,
    whole,
    with_words,
)
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from recipe_readers import YAML, _shape, read_requirements
from support.matrix import by_day

from envspec.app.export.render import FORMATS as LOCK_FORMATS
from envspec.base.errors import SpecError
from envspec.export import folder

_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


presentable = hostile.map(lambda text: _REFUSED.sub("", text))
"""The same without what no spec may hold, so that it gets as far as the recipes."""


in_a_url = st.lists(st.sampled_from("\"$(id)'`;&|\\{}<>%![]^~a"), max_size=8).map("".join)


in_a_marker = presentable.map(lambda text: re.sub("[\"'\\\\]", "", text)[:50])


def read_yaml(text: str) -> Any:
    return yaml.load(text, YAML)


def locked_formats_are_inert(made: Project, twin: Project) -> None:
    """The same for the formats that a lock itself is written in."""
    for name, form in LOCK_FORMATS.items():
        for target, plain in zip(made.lock, twin.lock, strict=True):
            urls = {(pin.index, pin.artifact.file): "https://files.example/f" for pin in target.pins if pin.artifact}
            if form.needs_conda and not any(pin.kind == "conda" for pin in target.pins):
                continue
            one, other = form.render(made.lock, target, urls), form.render(twin.lock, plain, urls)
            if form.file(target).endswith(".txt"):
                assert read_requirements(one) == read_requirements(other), name
            elif form.file(target).endswith(".lock"):
                assert [line for line in one.split("\n") if not line.startswith("#")] == [
                    line for line in other.split("\n") if not line.startswith("#")
                ]
            else:
                parse: dict[str, Callable[[str], Any]] = {"toml": tomli.loads, "yml": read_yaml, "json": json.loads}
                load = parse[form.file(target).rpartition(".")[2]]
                assert _shape(load(one)) == _shape(load(other)), name


harmful_words = st.builds(
    Words,
    description=presentable,
    env=st.dictionaries(variables, presentable, max_size=3).map(lambda found: tuple(found.items())),
    unit=presentable,
    path=in_a_url,
    marker=in_a_marker,
    program=presentable,
)


@pytest.mark.slow
@QUICKLY
@given(harmful_words)
def test_text_stays_text(words: Words) -> None:
    whole(Names(), words)


@QUICKLY
@given(in_a_url, in_a_marker)
def test_formats_of_a_lock_hold_text_as_text(path: str, marker: str) -> None:
    words = Words(path=path, marker=marker)
    try:
        made = project(Names(), words)
    except SpecError as error:
        must_be_clear(error)
        return
    locked_formats_are_inert(made, project(Names(), words.harmless()))


@pytest.mark.nightly
@pytest.mark.slow
@settings(SLOWLY, max_examples=500)
@given(odd_names, harmful_words)
def test_text_stays_text_thousands(names: Names, words: Words) -> None:
    whole(names, words)


def changed_plan(description: str, value: str) -> None:
    """Texts that no spec lets through: the second wall."""
    is_inert(with_words(harmless_plan(), description, value), plain_values("plain" if description.split() else ""))


@cache
def plain_values(description: str) -> Mapping[str, object]:
    return values_of(with_words(harmless_plan(), description))


@pytest.mark.slow
@QUICKLY
@given(hostile, hostile)
def test_what_a_spec_refuses_stays_text_too(description: str, value: str) -> None:
    changed_plan(description, value)


@pytest.mark.nightly
@pytest.mark.slow
@SLOWLY
@given(hostile, hostile)
def test_what_a_spec_refuses_stays_text_too_thousands(description: str, value: str) -> None:
    changed_plan(description, value)


@pytest.mark.by_commit(3)
@pytest.mark.parametrize(
    "piece", by_day(PIECES, lambda piece: PIECES.index(piece) % 9 == 0), ids=lambda piece: ascii(piece[:12])
)
def test_each_piece_by_itself(piece: str) -> None:
    changed_plan(piece, piece)


def test_every_registered_format_was_read() -> None:
    """The plans above admit each format at least once, so none escapes its reader."""
    plan = harmless_plan()
    seen = {name for of in plan.targets for name in folder.render_all(of)} | set(folder.render_all_of_spec(plan))
    assert seen == set(folder.RECIPES)


FIELDS = Names.__struct_fields__


@QUICKLY
@given(odd_names)
def test_odd_names_are_names(names: Names) -> None:
    whole(names, Words())


@pytest.mark.slow
@pytest.mark.by_commit(3)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("field", by_day(FIELDS, lambda field: field in ("name", "target", "channel")))
def test_what_is_hostile_in_a_name_is_refused(field: str) -> None:
    """Every piece alone, before and behind the name. What a spec lets through is looked at as a whole."""
    plain = getattr(Names(), field)
    through = []
    for piece in PIECES:
        for value in (piece, plain + piece, piece + plain):
            names = replace(Names(), **{field: value})
            try:
                project(names, Words())
            except SpecError as error:
                must_be_clear(error)
            else:
                through.append(names)
    for names in through[::3] if len(through) > len(PIECES) else through:
        whole(names, Words())
