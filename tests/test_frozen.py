"""Frozen dataclasses made the fast way are those of the standard library in all that a caller sees."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from envspec.frozen import dataclass


def _classes(dataclass: Any) -> dict[str, Any]:
    """The same classes by either decorator, with every kind of field that envspec has."""

    @dataclass(frozen=True)
    class Plain:
        """Two texts."""

        name: str
        size: int | None = None

    @dataclass(frozen=True)
    class Fields:
        name: str
        made: list[int] = field(default_factory=list)
        unseen: int = field(default=1, compare=False, repr=False)
        known: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        fixed: str = field(default="x", init=False)
        shared: ClassVar[int] = 3

    @dataclass(frozen=True)
    class Inherits(Plain):
        kind: str = "b"

        def __post_init__(self) -> None:
            if self.kind == "bad":
                raise ValueError(self.kind)

    @dataclass(frozen=True)
    class Own:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return "own"

    @dataclass(frozen=True)
    class Empty:
        pass

    return {kind.__name__: kind for kind in (Plain, Fields, Inherits, Own, Empty)}


FAST, SLOW = _classes(dataclass), _classes(dataclasses.dataclass)
MADE: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "Plain": [(("a",), {}), (("a", 1), {}), ((), {"size": 1, "name": "a"})],
    "Fields": [(("a",), {}), (("a", [1]), {}), (("a",), {"unseen": 2})],
    "Inherits": [(("a",), {}), (("a", 1, "c"), {})],
    "Own": [(("a",), {}), (("A",), {})],
    "Empty": [((), {})],
}


@pytest.mark.parametrize("name", FAST)
def test_an_instance_is_as_the_standard_librarys(name: str) -> None:
    fast: list[Any] = [FAST[name](*given, **named) for given, named in MADE[name]]
    slow: list[Any] = [SLOW[name](*given, **named) for given, named in MADE[name]]
    assert list(map(repr, fast)) == list(map(repr, slow))
    assert [asdict(one) for one in fast] == [asdict(one) for one in slow]
    assert [[a == b for b in fast] for a in fast] == [[a == b for b in slow] for a in slow]
    assert fast[0] != object() and fast[0] != slow[0]
    for one in fast:
        assert copy.copy(one) == one and copy.deepcopy(one) == one
        with pytest.raises(FrozenInstanceError):
            one.name = "b"
        with pytest.raises(FrozenInstanceError):
            del one.name
    if name != "Fields":
        assert [[hash(a) == hash(b) for b in fast] for a in fast] == [[hash(a) == hash(b) for b in slow] for a in slow]


@pytest.mark.parametrize("name", FAST)
def test_a_class_is_as_the_standard_librarys(name: str) -> None:
    fast, slow = FAST[name], SLOW[name]
    assert str(inspect.signature(fast)) == str(inspect.signature(slow))
    assert [(one.name, one.type) for one in fields(fast)] == [(one.name, one.type) for one in fields(slow)]
    assert fast.__match_args__ == slow.__match_args__
    assert fast.__init__.__qualname__ == slow.__init__.__qualname__


def test_a_wrong_call_is_told_as_ever() -> None:
    with pytest.raises(TypeError, match=r"Plain.__init__\(\) missing 1 required positional argument: 'name'"):
        FAST["Plain"]()
    with pytest.raises(TypeError, match="unexpected keyword argument 'length'"):
        FAST["Plain"]("a", length=1)


def test_changed_by_replace() -> None:
    made = FAST["Inherits"]("a")
    assert replace(made, size=2) == FAST["Inherits"]("a", 2)
    with pytest.raises(ValueError, match="bad"):
        replace(made, kind="bad")
    with pytest.raises(ValueError, match="init=False"):
        replace(FAST["Fields"]("a"), fixed="y")


def test_lists_aren_t_hashed() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(FAST["Fields"]("a"))


@dataclass(frozen=True)
class Kept:
    name: str


def test_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept("a"))) == Kept("a")


def test_other_options_are_the_standard_librarys() -> None:
    @dataclass(frozen=True, order=True)
    class Ordered:
        number: int

    @dataclass
    class Open:
        number: int

    assert Ordered(1) < Ordered(2)
    changed = Open(1)
    changed.number = 2
    assert changed == Open(2)
