"""Each demand of the stacks that the shipped specs stand for is met by what is named, or says what it lacks."""

from pathlib import Path
from typing import Any

import pytest
import tomlkit
from envspec_check import checks  # noqa: F401 -- it fills the table
from envspec_check.interface import CHECKS

ROOT = Path(__file__).resolve().parents[2]
DEMANDS: dict[str, dict[str, Any]] = tomlkit.parse(
    Path(__file__).with_name("demands.toml").read_text(encoding="utf-8")
).unwrap()


def test_no_demand_is_left_out() -> None:
    numbers = {"A": 14, "B": 7, "C": 8, "D": 5}
    assert list(DEMANDS) == [f"{stack}{at}" for stack, last in numbers.items() for at in range(1, last + 1)]
    assert all(one["asks"] and (one.get("by") or one.get("lacks")) for one in DEMANDS.values())


@pytest.mark.parametrize("number", DEMANDS)
def test_what_meets_a_demand_is_there(number: str) -> None:
    for named in DEMANDS[number].get("by", ()):
        path, _, text = named.partition(": ")
        if "/" not in path:
            assert named in CHECKS, named
        else:
            assert text in (ROOT / path).read_text(encoding="utf-8"), named
