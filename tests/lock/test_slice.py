"""A target's slice of the lock: what the lock's own format says of that target alone, and nothing of another."""

from pathlib import Path

import pytest
import tomli
from msgspec.structs import replace

from envspec.lock.read import load
from envspec.lock.slice import slice_digest, slice_of
from envspec.lock.write import dumps

LOCKS = sorted((Path(__file__).resolve().parents[2] / "locks").glob("*/envspec.lock"))


@pytest.mark.by_day(5)
@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.parent.name)
def test_it_is_what_the_lock_would_say_with_that_target_alone(path: Path) -> None:
    lock = load(path)
    for target in lock:
        own = tuple(one for one in lock.pythons if one == lock.python(target))
        written = tomli.loads(dumps(replace(lock, targets=(target,), images=(), pythons=own)))
        assert slice_of(lock, target) == written
        assert list(slice_of(lock, target)) == list(written)


def test_what_moves_in_another_target_leaves_it() -> None:
    lock = load(next(path for path in LOCKS if path.parent.name == "mm-v2.9"))
    first, second, *others = lock.targets
    moved = replace(second, pins=tuple(replace(pin, version="0") for pin in second.pins), driver_floor="1")
    other = replace(lock, targets=(first, moved, *others), images=())
    assert slice_of(other, first) == slice_of(lock, first)
    assert slice_of(other, moved) != slice_of(lock, second)


def test_the_digest_is_of_the_values() -> None:
    lock = load(LOCKS[0])
    document = slice_of(lock, lock.targets[0])
    again = dict(reversed(list(document.items())))
    assert slice_digest(again) == slice_digest(document)
    assert slice_digest({**document, "env": {}}) != slice_digest(document)
    assert slice_digest({**document, "lock-version": 9}) == slice_digest(document), "records outlive the schema"


def test_it_has_the_terms_of_its_target() -> None:
    lock = load(LOCKS[0])
    terms = {
        "constraints": ("numpy<9",),
        "overrides": (("numpy>=1", "tried"),),
        "find_links": (("pyg", "a.html"),),
        "accept": (("gpu-only", "wanted"),),
    }
    first, *others = lock.targets
    bounded = replace(first, inputs=replace(first.inputs, **terms))
    whole = replace(lock, targets=(bounded, *others), images=())
    written = tomli.loads(dumps(replace(whole, targets=(bounded,))))
    assert slice_of(whole, bounded) == written
    assert written["env"]["overrides"] == [{"requirement": "numpy>=1", "reason": "tried"}]
    assert slice_digest(slice_of(whole, bounded)) != slice_digest(slice_of(lock, first))
