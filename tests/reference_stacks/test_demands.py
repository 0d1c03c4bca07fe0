"""Each demand of the stacks that the shipped specs stand for is met by what is named, or says what it lacks."""

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from envspec_check import checks  # noqa: F401 -- it fills the table
from envspec_check.interface import CHECKS

from envspec.lock.read import load

ROOT = Path(__file__).resolve().parents[2]
DEMANDS: dict[str, dict[str, Any]] = tomlkit.parse(
    Path(__file__).with_name("demands.toml").read_text(encoding="utf-8")
).unwrap()
SPECS = {"A": ("mm-v2.1", "mm-v2.9"), "B": ("llm-v2.9",), "C": ("team-v2.9",), "D": ("deit-v2.6",)}
NAMED = [(number, named) for number, one in DEMANDS.items() for named in one.get("by", ())]
PACKAGES = {"deit_small": "timm"}
"""Of checks of the group stack that have another name than their package."""


def test_no_demand_is_left_out() -> None:
    numbers = {"A": 14, "B": 7, "C": 8, "D": 5}
    assert list(DEMANDS) == [f"{stack}{at}" for stack, last in numbers.items() for at in range(1, last + 1)]
    assert all(one["asks"] and (one.get("by") or one.get("lacks")) for one in DEMANDS.values())


@cache
def answers(spec: str) -> list[dict[str, tuple[str, str]]]:
    """What each check said in each record of a spec's targets: its status and reason."""
    found = []
    for path in sorted((ROOT / "docs" / "evidence").glob(f"{spec}-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "checks" in record:
            found.append({one["name"]: (one["status"], one["reason"] or "") for one in record["checks"]})
    return found


@cache
def locked(spec: str) -> set[str]:
    lock = load(ROOT / "locks" / spec / "envspec.lock")
    return {pin.name for target in lock.targets for pin in target.pins}


@pytest.mark.parametrize(("number", "named"), [one for one in NAMED if "/" not in one[1]])
def test_a_check_that_meets_a_demand_runs_in_its_stack(number: str, named: str) -> None:
    """It passed in a record of the stack, or waits for a GPU there; of a package, the stack locks it. What is skipped
    for another reason is told as lacking."""
    assert named in CHECKS
    group, _, package = named.partition(".")
    specs = SPECS[number[0]]
    if group == "stack":
        assert any(PACKAGES.get(package, package) in locked(spec) for spec in specs), "no spec of the stack locks it"
    said = [one[named] for spec in specs for one in answers(spec) if named in one]
    assert "fail" not in {status for status, _ in said}
    runs = any(status == "pass" or reason.startswith("needs ") for status, reason in said)
    assert runs or not said or "lacks" in DEMANDS[number] or group == "stack", said


@cache
def functions(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marks = [
        ast.unparse(one.value) for one in tree.body if isinstance(one, ast.Assign) and "pytestmark" in ast.unparse(one)
    ]
    assert not any(re.search(r"mark\.skip\b", one) for one in marks)
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize(("number", "named"), [one for one in NAMED if "/" in one[1]])
def test_a_text_or_a_test_that_meets_a_demand_is_there(number: str, named: str) -> None:
    path, _, text = named.partition(": ")
    assert text, "a file alone shows nothing"
    if not path.startswith("tests/"):
        assert text in (ROOT / path).read_text(encoding="utf-8")
        return
    test = functions(ROOT / path)[text]
    assert text.startswith("test_")
    assert not any(re.search(r"mark\.skip\b", ast.unparse(one)) for one in test.decorator_list)
    assert not any(ast.unparse(one).startswith("pytest.skip") for one in test.body), "it is skipped always"
