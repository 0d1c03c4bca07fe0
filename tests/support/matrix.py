"""A matrix that takes long: some of its cases in the tests of a day, all of them in `.ci/run`.

Of the values of one parameter, `by_day` and `first_by_day` say which ones; `@pytest.mark.by_day(3)` leaves the day the
first three cases of the whole test. The cases that are left out are slow.
"""

from __future__ import annotations

from collections import Counter
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


def leave_to_ci(items: Iterable[pytest.Item]) -> None:
    """Mark the cases beyond the number in a test's `by_day` as slow."""
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("by_day")
        if mark is not None and item.get_closest_marker("slow") is None:
            name = item.nodeid.partition("[")[0]
            seen[name] += 1
            if seen[name] > mark.args[0]:
                item.add_marker(SLOW)


def _slow(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, SLOW], id=case.id)
    values = case if isinstance(case, tuple) and not hasattr(case, "_fields") else (case,)
    return pytest.param(*values, marks=SLOW)
