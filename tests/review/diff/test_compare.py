"""`apply(diff(a, b), a) == b`, and no lock that can be written makes a renderer fail."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from msgspec import structs
from support.applied import apply
from support.examples import examples

sys.path.append(str(Path(__file__).parents[2] / "lock"))

from lock_strategies import locks

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock
from envspec.review.diff.documents import as_json, html
from envspec.review.diff.markdown import LIMIT, markdown
from envspec.review.diff.model import Diff, nothing
from envspec.review.diff.review import diff, review
from envspec.review.diff.text import WIDTH, cells, text


@pytest.mark.slow
@given(locks(), locks())
@settings(max_examples=examples(50, night=1000))
def test_a_diff_leads_from_one_lock_to_the_other(old: Lock, new: Lock) -> None:
    assert apply(diff(old, new), old) == new
    assert apply(diff(new, old), new) == old


@pytest.mark.slow
@given(locks())
def test_a_lock_differs_from_itself_in_nothing(lock: Lock) -> None:
    assert diff(lock, structs.replace(lock)) == Diff() and not diff(lock, lock)
    assert not review(Side("a", lock), Side("b", lock))


@pytest.mark.slow
@given(locks())
def test_from_nothing(lock: Lock) -> None:
    empty = nothing(lock.name)
    assert apply(diff(empty, lock), empty) == lock
    assert apply(diff(lock, empty), lock) == empty


@pytest.mark.slow
@given(locks(), locks())
@settings(max_examples=examples(25, night=500))
def test_everything_can_be_shown(old: Lock, new: Lock) -> None:
    found = review(Side("old", old), Side("new", new))
    shown = text(found)
    assert all(cells(line) <= WIDTH for line in shown.splitlines()), shown
    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert len(markdown(found)) <= LIMIT
    json.dumps(as_json(found))
    HTMLParser().feed(html(found))


@given(locks(), locks())
@settings(max_examples=examples(25, night=500))
def test_json_has_every_change_to_the_letter(old: Lock, new: Lock) -> None:
    """What each target that both sides have installs before and after, by the document alone."""
    found = as_json(review(Side("old", old), Side("new", new)))
    names = {one["new"]: one["old"] for one in found["targets"]["renamed"]}
    shared = [(t, before) for t in new if (before := old.target(names.get(t.name, t.name)))]
    everywhere = [after.name for after, _ in shared]
    told = {
        (package["kind"], package["name"], target): (change["old"], change["new"])
        for package in found["packages"]
        for change in package["changes"]
        for target in change["targets"] or everywhere
    }
    for after, before in shared:
        was, now = ({(pin.kind, pin.name): pin for pin in target.pins} for target in (before, after))
        for key in {*was, *now}:
            if was.get(key) != now.get(key):
                kind, name = key
                views = told[kind, name, after.name]
                for pin, view in zip((was.get(key), now.get(key)), views, strict=True):
                    assert (pin is None) == (view is None)
                    if pin is not None:
                        file = pin.artifact
                        assert (view["version"], view["build"], view["index"]) == (pin.version, pin.build, pin.index)
                        assert (view["licence"], view["size"]) == (pin.licence, file.size if file else None)
                        assert (view["file"], view["sha256"]) == ((file.file, file.sha256) if file else (None, None))
                        assert view["source"] == pin.url or (pin.git and pin.git.commit in view["source"])


@pytest.mark.slow
@given(locks(), locks())
@settings(max_examples=examples(25, night=500))
def test_no_change_is_hidden(old: Lock, new: Lock) -> None:
    """Every package that the targets on both sides have otherwise has its row."""
    rows = {(row.kind, row.name) for row in review(Side("old", old), Side("new", new)).rows}
    for target in old:
        other = new.target(target.name)
        for pin in target.pins if other else ():
            now = other.pin(pin.name, pin.kind) if other else None
            assert now == pin or (pin.kind, pin.name) in rows
