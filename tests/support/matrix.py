"""A matrix that takes long: some of its cases in the tests of a day, all of them in `.ci/run`.

Of the values of one parameter, `by_day` and `first_by_day` say which ones; `@pytest.mark.by_day(3)` leaves the day the
first three cases of the whole test. The cases that are left out are slow. With `@pytest.mark.by_commit(4)`, `.ci/run`
takes one in four of the cases that aren't the day's, other ones with another commit; the rest of them are nightly.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
    """Mark as slow what `by_day` leaves to `.ci/run`, and as nightly what `by_commit` leaves to the night."""
    seen: Counter[tuple[str, str]] = Counter()
    turn = _commit()
    for item in items:
        name = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("by_day")
        if mark is not None and item.get_closest_marker("slow") is None:
            seen[name, "day"] += 1
            if seen[name, "day"] > mark.args[0]:
                item.add_marker(SLOW)
        mark = item.get_closest_marker("by_commit")
        if mark is None:
            continue
        marks = {one.name for one in item.iter_markers()}
        if marks & {"slow", "network"} and "nightly" not in marks:
            seen[name, "commit"] += 1
            if (seen[name, "commit"] + turn) % mark.args[0]:
                item.add_marker(pytest.mark.nightly)


def is_excluded(path: Path, expression: str) -> bool:
    """Return whether `-m expression` excludes each test of a file by the file's `pytestmark`. What isn't imported costs
    nothing: each worker would import it for itself."""
    if not re.fullmatch(r"not \w+( and not \w+)*", expression):
        return False
    marks = re.search(r"^pytestmark = (\[\n.*?^\]|.*?$)", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return marks is not None and not {*re.findall(r"mark\.(\w+)", marks[0])}.isdisjoint(expression.split())


def _commit() -> int:
    """The number of the commit that is checked out, 0 without one: all workers draw the same cases by it."""
    command = ["git", "-c", "safe.directory=*", "rev-parse", "HEAD"]
    told = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return 0 if told.returncode else int(told.stdout, 16)


def _slow(case: Any) -> Any:
    if isinstance(case, type(pytest.param())):
        return pytest.param(*case.values, marks=[*case.marks, SLOW], id=case.id)
    values = case if isinstance(case, tuple) and not hasattr(case, "_fields") else (case,)
    return pytest.param(*values, marks=SLOW)
