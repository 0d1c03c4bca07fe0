"""envspec's `dataclass` beside the standard library's: the same class, made faster."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest

from envspec.base import record


def made(by: Callable[..., Any]) -> Any:
    @by(frozen=True)
    class Wheel:
        """A file."""

        LIMIT: ClassVar[int] = 3
        name: str
        size: int | None = None
        tags: tuple[str, ...] = field(default_factory=tuple)
        notes: list[str] = field(default_factory=list, compare=False, repr=False)

        def __post_init__(self) -> None:
            if not self.name:
                raise ValueError("no name")

        @cached_property
        def shout(self) -> str:
            return self.name.upper()

    return Wheel


def made_of_one(by: Callable[..., Any]) -> Any:
    @by(frozen=True)
    class One:
        name: str = "x"

    return One


def made_of_none(by: Callable[..., Any]) -> Any:
    @by(frozen=True)
    class Nothing:
        """Nothing."""

    return Nothing


def behaviour(kind: Any, *given: Any) -> dict[str, Any]:
    one, same = kind(*given), kind(*given)
    with pytest.raises(FrozenInstanceError) as set_:
        one.other = 1
    with pytest.raises(FrozenInstanceError) as deleted:
        del one.other
    return {
        "shown": repr(one),
        "equal": (one == same, one == object(), hash(one) == hash(same), copy.copy(one) == one),
        "hash": hash(one),
        "fields": [(f.name, f.type, f.compare, f.repr) for f in fields(kind)],
        "values": asdict(one),
        "refused": (str(set_.value), str(deleted.value)),
        "positions": kind.__match_args__,
        "parameters": {
            name: getattr(kind.__dataclass_params__, name) for name in ("init", "repr", "eq", "order", "frozen")
        },
    }


def made_in_order(by: Callable[..., Any]) -> Any:
    @by(frozen=True, order=True)
    class Version:
        major: int
        minor: int = 0
        label: str = field(default="", compare=False)

    return Version


@pytest.mark.parametrize(
    ("make", "given"), [(made, ("a", 1, ("b",))), (made_of_one, ("y",)), (made_of_none, ()), (made_in_order, (1, 2))]
)
def test_behaves_as_the_standard_librarys(make: Callable[..., Any], given: tuple[Any, ...]) -> None:
    assert behaviour(make(record.dataclass), *given) == behaviour(make(dataclass), *given)


def test_orders_as_the_standard_librarys() -> None:
    kinds = made_in_order(record.dataclass), made_in_order(dataclass)
    given = [(2, 1), (1, 3), (1,), (2,)]
    ordered, other = (sorted(kind(*one) for one in given) for kind in kinds)
    assert repr(ordered) == repr(other)
    first, last = ordered[0], ordered[-1]
    assert first < last and first <= first and last > first and last >= last
    with pytest.raises(TypeError, match="not supported between instances"):
        assert first < 1


@pytest.mark.parametrize("many", [False, True])
def test_wrong_calls_are_told_as_by_the_standard_library(many: bool) -> None:
    """Before `__init__` is compiled, and afterwards."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((1, 2, 3, 4), {}),
        ((1,), {"major": 1}),
        ((1,), {"patch": 1}),
        ((), {"minor": 1}),
    ]
    for args, named in calls:
        told = []
        for by in (record.dataclass, dataclass):
            kind = made_in_order(by)
            for _ in range(20 if many else 0):
                kind(1)
            with pytest.raises(TypeError) as error:
                kind(*args, **named)
            told.append(str(error.value).rpartition(".")[2])
        assert told[0] == told[1]


def test_signature_and_fields_are_there_before_the_first_value() -> None:
    for make in (made, made_in_order, made_of_none):
        kinds = make(record.dataclass), make(dataclass)
        ours, theirs = (inspect.signature(kind).parameters for kind in kinds)
        assert [*ours] == [*theirs]


def test_defaults_post_init_and_what_is_cached() -> None:
    kind = made(record.dataclass)
    one, other = kind("a"), kind("a")
    assert one.notes == [] and one.notes is not other.notes and kind.LIMIT == 3
    assert one.shout == "A"
    assert replace(one, name="b").name == "b" and one != replace(one, size=2)
    one.notes.append("ignored")
    assert one == other
    with pytest.raises(ValueError, match="no name"):
        kind("")
    with pytest.raises(ValueError, match="no name"):
        replace(one, name="")
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        kind()


@pytest.mark.parametrize("make", [made, made_in_order])
def test_replaces_as_the_standard_library(make: Callable[..., Any]) -> None:
    """Before the class has been asked for its fields, and afterwards."""
    told = []
    for by, change in ((record.dataclass, record.replace), (record.dataclass, replace), (dataclass, replace)):
        kind = make(by)
        one = kind("a" if make is made else 1)
        other = change(one, **{kind.__match_args__[0]: "b" if make is made else 2})
        with pytest.raises(TypeError) as error:
            change(one, patch=1)
        told.append((repr(other), other == one, str(error.value).rpartition(".")[2]))
    assert told[0] == told[1] == told[2]
    assert record.replace(Derived("a"), size=3) == Derived("a", 3)


@record.dataclass(frozen=True)
class Base:
    name: str


@record.dataclass(frozen=True)
class Derived(Base):
    size: int = 0


def test_is_inherited_from_and_travels() -> None:
    one = Derived("a", 2)
    assert repr(one) == "Derived(name='a', size=2)" and one != Base("a")
    with pytest.raises(FrozenInstanceError):
        one.size = 3  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(one)) == one and pickle.loads(pickle.dumps(Base("b"))) == Base("b")


def test_what_is_more_than_plain_is_left_to_the_standard_library() -> None:
    @record.dataclass
    class Counter:
        count: int = 0

    @record.dataclass(frozen=True)
    class Odd:
        name: str
        kept: dict[str, str] = field(default_factory=dict, init=False, hash=False)

        def __eq__(self, other: object) -> bool:
            return True

    counter = Counter()
    counter.count += 1
    assert counter == Counter(1) and dataclasses.is_dataclass(Odd)
    assert Odd("a") == Odd("b") and Odd("a").kept == {}
