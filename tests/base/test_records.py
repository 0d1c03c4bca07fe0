"""Records: what counts for their equality, and what a Struct does otherwise than a dataclass."""

from __future__ import annotations

import importlib
import operator
import pkgutil
from typing import ClassVar, TypeVar

import pytest
from msgspec import Struct
from msgspec.structs import replace

import envspec
from envspec.base.records import RecordWithNotes, compared_fields


class Asked(RecordWithNotes, frozen=True, eq=False):
    notes: ClassVar = frozenset({"line"})

    name: str
    bound: str = ""
    line: int = 0


class AskedTwice(Asked, frozen=True, eq=False):
    again: bool = False


class Other(RecordWithNotes, frozen=True, eq=False):
    notes: ClassVar = frozenset({"line"})

    name: str
    bound: str = ""
    line: int = 0


def test_a_note_makes_no_difference() -> None:
    one = Asked("torch", ">=2")
    assert operator.eq(one, replace(one, line=7)) and not operator.ne(one, replace(one, line=7))
    assert hash(one) == hash(replace(one, line=7))
    assert len({one, replace(one, line=7), replace(one, bound="")}) == 2


@pytest.mark.parametrize("other", [Asked("torch"), Asked("numpy", ">=2"), Other("torch", ">=2"), "torch", None])
def test_all_else_does(other: object) -> None:
    one = Asked("torch", ">=2")
    assert operator.ne(one, other) and not operator.eq(one, other)


def test_a_kind_of_it_has_more_that_counts() -> None:
    assert compared_fields(AskedTwice) == ("name", "bound", "again")
    assert AskedTwice("torch", line=3) == AskedTwice("torch") != AskedTwice("torch", again=True)
    assert Asked("torch") != AskedTwice("torch")


Kind = TypeVar("Kind", bound=Struct)


def structs(kind: type[Kind]) -> set[type[Kind]]:
    return {kind, *(one for inner in kind.__subclasses__() for one in structs(inner))}


def test_what_is_equal_by_its_own_rule_is_unequal_by_it() -> None:
    """A Struct has an `__ne__`, which doesn't ask a class's own `__eq__`."""
    for module in pkgutil.walk_packages(envspec.__path__, "envspec."):
        if "carried" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    own = {kind for kind in structs(Struct) if "__eq__" in vars(kind) and kind is not Struct}
    assert {kind.__name__ for kind in own} >= {"Corrections", "RecordWithNotes"}
    assert [kind for kind in own if "__ne__" not in vars(kind)] == []


def test_a_record_says_which_of_its_fields_are_notes() -> None:
    for kind in structs(RecordWithNotes) - {RecordWithNotes}:
        assert kind.notes and kind.notes <= set(kind.__struct_fields__), kind
