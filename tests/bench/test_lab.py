"""The lab: what it takes for a difference, how it makes one small, and where it goes on."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from stacks.answers import Answer
from support.examples import examples

from bench.lab.__main__ import Lab, compared
from bench.lab.answers import Bench
from bench.lab.cases import cases, dated
from bench.lab.installs import IMPORTS, judged
from bench.lab.shrink import differences, plain, shrunk, told_names, told_pins
from envspec.spec.parse import load_spec
from tools.reference.evidence import lab_part

OURS = {"a": "1", "b-c": "2", "d": "1"}
THEIRS = {"a": "1", "b-c": "3", "e": "1"}
DIFFERS = ("b-c 2 3", "d 1 -", "e - 1")


def test_answers_differ_by_version_and_by_name() -> None:
    assert differences(OURS, THEIRS) == DIFFERS
    assert differences(OURS, OURS) == ()


@pytest.mark.parametrize(
    ("told", "names", "pins"),
    [
        ("note: cpu: B_C 3 has no wheel: 2 is locked", ("b-c",), ("b-c==2",)),
        ("note: bb-c, c and e.", ("e",), ()),
        ("note: a for b-c", ("b-c",), ("b-c==2", "a==1")),
        ("note: d for b-c (correction d-b-c)", ("b-c", "d"), ("b-c==2", "d==1")),
        ("", (), ()),
    ],
)
def test_what_lock_names_is_told(told: str, names: tuple[str, ...], pins: tuple[str, ...]) -> None:
    assert (told_names(DIFFERS, told), told_pins(OURS, THEIRS, told)) == (names, pins)


@settings(max_examples=examples(60))
@given(st.integers(1, 30), st.data())
def test_a_case_is_made_as_small_as_it_goes(count: int, data: st.DataObject) -> None:
    parts = tuple(map(str, range(count)))
    guilty = data.draw(st.sets(st.sampled_from(parts), min_size=1, max_size=3))
    assert set(shrunk(parts, lambda some: guilty <= set(some), probes=10_000)) == guilty


def test_shrinking_ends_when_its_questions_are_used_up() -> None:
    asked: list[tuple[str, ...]] = []

    def shows(some: tuple[str, ...]) -> bool:
        asked.append(some)
        return "h" in some

    found = shrunk(tuple("abcdefgh"), shows, probes=3)
    assert len(asked) <= 3
    assert "h" in found


def test_a_case_has_fewer_requirements_and_another_day() -> None:
    case = cases()["scikit-learn"]
    assert case.requirements == ("scikit-learn", "pandas", "matplotlib")
    small = case.with_requirements(["pandas"]).at("2026-06-01")
    assert small.requirements == ("pandas",)
    assert 'exclude-newer = "2026-06-01"' in small.text
    assert [day for day, _ in dated(cases()["nerfstudio-2024"])] == ["2024-06-01"]
    assert len(dated(case)) == 2


def test_what_is_kept_names_no_machine() -> None:
    assert plain("error: /home/me/x.toml: no\n https://h/simple a/b") == "error: …: no … a/b"


def test_every_case_is_a_spec_of_one_target(tmp_path: Path) -> None:
    for case in cases().values():
        path = tmp_path / "spec.toml"
        path.write_text(case.text, encoding="utf-8")
        assert len(load_spec(str(path)).targets) == 1, case.name
    assert sum(case.install for case in cases().values()) >= 30


class Asked:
    """A bench with recorded answers: uv's, and uv's with what lock told of as pins."""

    def __init__(self, again: dict[str, str]) -> None:
        self.again = again
        self.pins: tuple[str, ...] = ()

    def uvs(self, pins: Sequence[str]) -> Answer:
        self.pins = tuple(pins)
        return Answer(self.again, 1, "")


@pytest.mark.parametrize(
    ("told", "again", "what", "left"),
    [
        ("note: b-c 3 wants glibc 2.31, d and e go with it", {}, "told", ()),
        ("note: b-c 3 wants glibc 2.31", OURS, "told", ()),
        ("note: b-c 3 wants glibc 2.31", {**OURS, "d": "2"}, "differs", ("d 1 2",)),
        ("", {}, "differs", DIFFERS),
    ],
)
def test_what_was_told_may_move_others(told: str, again: dict[str, str], what: str, left: tuple[str, ...]) -> None:
    bench = Asked(again)
    row = compared(bench, Answer(OURS, 1, told), Answer(THEIRS, 1, ""))  # type: ignore[arg-type]
    assert (row["what"], tuple(row["open"])) == (what, left)
    assert bench.pins in ((), ("b-c==2",))


def test_sources_are_let_be_built_where_lock_asks_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def answer(*given: Any) -> Answer:
        asked.append(given[-1])
        return Answer(OURS, 1, "") if given[-1] else Answer({}, 1, "error: from source\nhint: --allow-needed")

    monkeypatch.setattr("bench.lab.answers.envspec_answer", answer)
    bench = Bench(cases()["celery-2018"], tmp_path, tmp_path, None, None, {})  # type: ignore[arg-type]
    assert bench.ours().packages == OURS
    assert asked == [(), ("--allow-needed",)]


def test_refusals_are_counted_by_who_refuses() -> None:
    none, some = Answer({}, 1, "still\nerror: demo: no\nhint: x"), Answer(OURS, 1, "")
    rows = [compared(Asked({}), *two) for two in ((none, some), (some, none), (none, none))]  # type: ignore[arg-type]
    assert [row["what"] for row in rows] == ["only refused", "only locked", "both refused"]
    assert {row["told"] for row in rows} == {"error: demo: no"}


def test_the_next_run_goes_on_and_a_whole_round_is_followed_by_a_new_one(tmp_path: Path) -> None:
    did: list[str] = []

    def unit(name: str, lab: Lab) -> dict[str, str]:
        did.append(name)
        lab.until = 0  # the time is up after each
        return {"what": "equal"}

    def night() -> Lab:
        lab = Lab(tmp_path, 90, 60, state_path=tmp_path / "done.json")
        lab.run({name: partial(unit, name, lab) for name in "ab"})
        return lab

    assert {*night().done} == {"a"}
    assert {*night().done} == {"a", "b"}
    assert {*night().done} == {"a"}
    assert did == ["a", "b", "a"]


def test_the_page_counts_and_names_what_is_open() -> None:
    asked = {"asked": "2026-11-24"}
    row = {**asked, "what": "differs", "packages": 2, "differs": DIFFERS, "open": DIFFERS[:1], "smallest": ("x", "y>1")}
    made = {**asked, "what": "works"}
    bad = {**asked, "what": "fails", "failed": {"pip install": "no file | y"}}
    text = "".join(lab_part({"answers 2026-11-01 it": row, "installs good": made, "installs bad": bad}))
    assert "| answers | 1 | 1 differs | 2026-11-24 |" in text
    assert text.endswith("\nOpen: answers 2026-11-01 it, installs bad.\n")


@pytest.mark.parametrize(
    ("told", "expected", "what", "shown"),
    [
        ("", {}, "imports fail", "no y"),
        ("note: b-c 1 imports y", {}, "works", "no y"),
        ("", {"b-c": "y is another's"}, "works", "no y (y is another's)"),
        ("note: d", {"e": "not this"}, "imports fail", "no y"),
    ],
)
def test_an_import_that_fails_is_a_fault_unless_it_was_foretold(
    told: str, expected: dict[str, str], what: str, shown: str
) -> None:
    row = judged({}, {"B_C: b": "no y"}, told, expected)
    assert (row["what"], row["imports"]) == (what, {"B_C: b": shown})
    assert judged({"pip check": "no"}, {}, told, expected)["what"] == "fails"


def test_imports_are_tried_one_by_one(tmp_path: Path) -> None:
    """By the Python of an environment in which one package can't be imported."""
    for name, text in (("good", "x = 1\n"), ("bad", "import nothing_of_this_name\n")):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        info = tmp_path / f"{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
        (info / "RECORD").write_text(f"{name}.py,,\n{name}-1.dist-info/METADATA,,\n", encoding="utf-8")
    script = IMPORTS.replace('"-I", ', "").replace("distributions()", f"distributions(path=[{str(tmp_path)!r}])")
    ended = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    said = json.loads(ended.stdout)
    assert said["modules"] == 2
    assert list(said["failed"]) == ["bad: bad"]
    assert "nothing_of_this_name" in said["failed"]["bad: bad"]
