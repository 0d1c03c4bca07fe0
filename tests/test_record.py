"""envspec's `dataclass` beside the standard library's: the same class, made faster."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest

from envspec import record


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
        "parameters": {name: getattr(kind.__dataclass_params__, name) for name in ("init", "repr", "eq", "frozen")},
    }


@pytest.mark.parametrize(("make", "given"), [(made, ("a", 1, ("b",))), (made_of_one, ("y",)), (made_of_none, ())])
def test_behaves_as_the_standard_librarys(make: Callable[..., Any], given: tuple[Any, ...]) -> None:
    assert behaviour(make(record.dataclass), *given) == behaviour(make(dataclass), *given)


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
