"""A matrix that takes long: some of its cases in the tests of a day, all of them in `.ci/run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

SLOW = pytest.mark.slow


def by_day(cases: Iterable[Any], chosen: Callable[[Any], bool]) -> list[Any]:
    """The cases for `parametrize`: those that aren't `chosen` for the day are slow. At least one has to be chosen."""
    listed = list(cases)
    day = [bool(chosen(case)) for case in listed]
    assert any(day), "no case is left for the day"
    return [case if now else _slow(case) for case, now in zip(listed, day, strict=True)]


def first_by_day(count: int, cases: Iterable[Any]) -> list[Any]:
    """The same, with the first so many cases for the day."""
    listed = list(cases)
    assert 0 < count < len(listed), "either no case is left for the day, or none for `.ci/run`"
    return [*listed[:count], *map(_slow, listed[count:])]


def _slow(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, SLOW], id=case.id)
    values = case if isinstance(case, tuple) and not hasattr(case, "_fields") else (case,)
    return pytest.param(*values, marks=SLOW)
