"""`.ci/touched`: which nightly tests a change runs at once. No nightly test may be left out of its table."""

import importlib.machinery
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from support import matrix
from support.matrix import is_excluded, leave_to_ci

ROOT = Path(__file__).resolve().parents[1]


def loaded() -> ModuleType:
    path = str(ROOT / ".ci" / "touched")
    spec = importlib.util.spec_from_loader("touched", importlib.machinery.SourceFileLoader("touched", path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


touched = loaded()
NIGHTLY = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "tests").rglob("test_*.py")
    if re.search(r"mark\.(nightly|by_commit)\b", path.read_text(encoding="utf-8")) and path != Path(__file__)
)


def test_every_file_with_nightly_tests_has_its_rule() -> None:
    assert sorted({file for _, files in touched.RULES for file in files}) == NIGHTLY


def test_each_rule_means_files_that_are_there(project_files: tuple[Path, ...]) -> None:
    paths = [path.as_posix() for path in project_files]
    plain = {one for pattern, _ in touched.RULES for one in expanded(pattern)}
    assert sorted(one for one in plain if not any(re.match(one, path) for path in paths)) == []


def expanded(pattern: str) -> set[str]:
    """Every alternative of a pattern, also those in its groups."""
    group = re.search(r"\(([^()]*)\)", pattern)
    if group is None:
        return set(pattern.split("|"))
    before, after = pattern[: group.start()], pattern[group.end() :]
    return {one for part in group[1].split("|") for one in expanded(before + part + after)}


@pytest.mark.parametrize(
    ("paths", "files"),
    [
        ([], []),
        (["README.md", "docs/gpu.md", "tests/lock/test_graph.py"], []),
        (
            ["envspec/export/nix.py"],
            [
                "tests/e2e/test_nix_environments.py",
                "tests/e2e/test_nix_flakes.py",
                "tests/export/test_hostile.py",
                "tests/export/test_hostile_nix.py",
            ],
        ),
        (["tests/e2e/test_image.py"], ["tests/e2e/test_image.py", "tests/e2e/test_services_from_lock.py"]),
        (["envspec/prove/smoke/run/jobs.py"], ["tests/e2e/test_smoke_slurm.py"]),
    ],
)
def test_what_a_change_concerns(paths: list[str], files: list[str]) -> None:
    assert touched.concerned(paths) == files


class Case:
    """A case of a matrix, as pytest hands it to `leave_to_ci`."""

    def __init__(self, name: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid, self.marks = f"test_it[{name}]", list(marks)

    def iter_markers(self) -> Iterator[pytest.Mark]:
        return (one.mark for one in self.marks)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((one for one in self.iter_markers() if one.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark)


def test_commits_in_a_row_draw_each_case_of_a_matrix_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []
    for commit in range(9, 12):
        monkeypatch.setattr(matrix, "_commit", lambda commit=commit: commit)
        cases = [Case(name, pytest.mark.by_commit(3), pytest.mark.by_day(2)) for name in "abcdefg"]
        leave_to_ci(cast("list[pytest.Item]", cases))
        slow = [one for one in cases if one.get_closest_marker("slow")]
        assert [one.nodeid for one in cases if one not in slow] == ["test_it[a]", "test_it[b]"]
        drawn += [one.nodeid for one in slow if not one.get_closest_marker("nightly")]
    assert sorted(drawn) == [f"test_it[{name}]" for name in "cdefg"]


@pytest.mark.parametrize(
    ("expression", "excluded"),
    [("not slow and not huge", True), ("not huge", False), ("", False), ("slow", False), ("not huge or slow", False)],
)
@pytest.mark.parametrize(
    "marks", ["pytest.mark.slow  # takes minutes", "[\n    pytest.mark.e2e,\n    pytest.mark.slow,\n]"]
)
def test_files_of_which_no_test_is_asked_for(tmp_path: Path, marks: str, expression: str, excluded: bool) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(f"pytestmark = {marks}\nOTHERS = [pytest.mark.huge]\n", "utf-8")
    assert is_excluded(file, expression) is excluded
    file.write_text(f"@{marks.split()[0]}\ndef test_it() -> None: ...\n", "utf-8")
    assert not is_excluded(file, expression), "a mark of one test"
