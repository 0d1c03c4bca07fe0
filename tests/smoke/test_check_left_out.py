"""A copy of the check without what its targets don't need: the table is the same, and what is asked for and isn't there
fails by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from envspec_check.checks import gpu
from envspec_check.checks.stack.packages import ORDER
from envspec_check.interface import CHECKS, WORKLOAD_NAMES

from envspec.recipes.carried import CheckNeeds, carried_files, check_files, part_of

ROOT = Path(__file__).resolve().parents[2]
FEW = CheckNeeds(frozenset(), "llm", gpu=False)
ALL_OF_GPUS = CheckNeeds(frozenset({"peft"}), "llm", gpu=True)


def copy_of(folder: Path, needed: CheckNeeds) -> Path:
    """The check as it is carried for targets with these needs."""
    for path, text in carried_files((), needed).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder / "check"


def said_by_a_copy(folder: Path, needed: CheckNeeds, program: str) -> str:
    """What a program prints that imports such a copy."""
    text = f"import sys\nsys.path.insert(0, {str(copy_of(folder, needed))!r})\n"
    text += "from envspec_check import checks, workloads, interface\n"
    done = subprocess.run([sys.executable, "-I", "-c", text + program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_left_out_but_what_is_known_to_be() -> None:
    """No module is imported by a name that the export doesn't see."""
    for name in WORKLOAD_NAMES:
        carried = carried_files((), CheckNeeds(frozenset(ORDER), name, gpu=True))
        others = {f"check/envspec_check/workloads/{other}.py" for other in WORKLOAD_NAMES if other != name}
        assert set(check_files()) - set(carried) == others


@pytest.mark.parametrize("needed", [FEW, ALL_OF_GPUS])
def test_a_copy_for_few_needs_has_the_same_table(tmp_path: Path, needed: CheckNeeds) -> None:
    own = sorted((one.name, str(one.needs), one.torch) for one in CHECKS.values())
    program = "print(sorted((one.name, str(one.needs), one.torch) for one in interface.CHECKS.values()))"
    if needed is ALL_OF_GPUS:
        assert said_by_a_copy(tmp_path, needed, program).strip() == str(own)
    else:  # what stands for a check that isn't here needs no process without torch
        names = [one[:2] for one in own]
        program = "print(sorted((one.name, str(one.needs)) for one in interface.CHECKS.values()))"
        assert said_by_a_copy(tmp_path, needed, program).strip() == str(names)
    packages = tmp_path / "check" / "envspec_check" / "checks" / "stack" / "packages"
    assert {path.stem for path in packages.glob("*.py")} == {"__init__", *needed.packages}


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("name", "lock", "told"),
    [
        ("stack.timm", {"pip": [{"name": "tqdm"}]}, "the target locks no timm"),
        ("stack.timm", {"pip": [{"name": "timm"}]}, "the check of timm isn't here: this copy was exported for"),
        ("device.memory", {"targets": {"t": {}}}, "the target is for CPUs"),
        ("device.memory", {"targets": {"t": {"cuda": "12.8"}}}, "the checks of GPUs aren't here: this copy was"),
        ("static.cuda_versions", {"targets": {"t": {"cuda": "12.8"}}}, "the checks of GPUs aren't here: this copy was"),
    ],
)
def test_a_check_that_was_left_out(tmp_path: Path, name: str, lock: dict[str, object], told: str) -> None:
    program = f"""
import pathlib, types
sys.modules["timm"] = types.ModuleType("timm")
ctx = interface.Context({{"target": "t", "lock": {lock!r}}}, "cpu", "llm", 5, True, 0, 60.0, pathlib.Path("."), "check")
try:
    print(interface.CHECKS[{name!r}].run(ctx).reason)
except interface.Skip as skip:
    print(skip)
"""
    assert said_by_a_copy(tmp_path, FEW, program).startswith(told)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("words", [[], ["--workload", "deit"]])
def test_a_workload_that_was_left_out_is_no_run(tmp_path: Path, words: list[str]) -> None:
    """cpu-py311 trains `basic`; the copy has `llm` alone."""
    config = ROOT / "recipes" / "cpu-py311" / "cpu" / "target.json"
    command = [sys.executable, "-I", str(copy_of(tmp_path, FEW)), "--config", str(config), "--only", "static", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    asked = words[-1] if words else "basic"
    assert done.returncode == 2
    assert f"the workload {asked} isn't here: this copy was exported for targets that train llm" in done.stderr


def test_each_module_that_may_be_left_out_is_known() -> None:
    kinds: dict[str, set[str]] = {}
    for kind, name in filter(None, map(part_of, check_files())):
        kinds.setdefault(kind, set()).add(name)
    assert kinds == {"package": set(ORDER), "workload": set(WORKLOAD_NAMES), "gpu": set(gpu.MODULES)}


def test_what_stands_for_the_checks_of_gpus_has_their_names_and_needs() -> None:
    for names in gpu.MODULES.values():
        for name in names:
            assert CHECKS[name].needs == gpu.NEEDS.get(name, "gpu"), name
    of_gpus = {name for name, one in CHECKS.items() if one.run.__module__.startswith(gpu.__name__)}
    assert of_gpus == {name for names in gpu.MODULES.values() for name in names}
