"""What counts as a line of code, as a word, and as a wide line."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.weight import code_lines, weight, wide_lines, words

SAMPLE = '''\
"""A docstring,

of three lines."""

import sys  # 1

# a comment
TEXT = """counts
with its

blank line"""  # 5: 2 to 5


class One:  # 6
    """A docstring."""

    x: int = 1  # 7

    def f(self) -> None:  # 8
        """Another."""


def g(
    a: int,
    b: int,
) -> None:  # 12
    print(  # 13
        a,  # 14

        b,  # 15
    )  # 16
    "no docstring"  # 17
'''


def test_a_sample() -> None:
    assert code_lines(SAMPLE) == 17


@pytest.mark.parametrize("source", ["", "\n\n# nothing\n", '"""Only a docstring."""\n'])
def test_no_code(source: str) -> None:
    assert code_lines(source) == 0


def test_what_is_carried_is_left_out(tmp_path: Path) -> None:
    for name in ("a.py", "inner/b.py", "carried/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n\n")
    assert weight(tmp_path) == f"{tmp_path}: 2 lines of code (4 of all kinds) in 2 modules"


def test_words_have_a_letter_or_a_digit(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Two words\n\n| 3 | – |\n|---|---|\n- `x`\n", "utf-8")
    (tmp_path / "docs" / "untracked.md").write_text("word\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "docs/a.md"], cwd=tmp_path, check=True)
    assert words(tmp_path) == {"docs/a.md": 4}


def test_wide_lines_are_over_120_characters(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"{'x' * 120}\n{'x' * 121}\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "a.py"], cwd=tmp_path, check=True)
    assert wide_lines(tmp_path, "*.py") == 1


def test_a_reader_that_stops_early_sees_no_traceback(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-u", str(root / "tools" / "weight.py"), str(tmp_path), str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""
