"""What counts as a line of code."""

from pathlib import Path

import pytest

from tools.weight import code_lines, weight

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
