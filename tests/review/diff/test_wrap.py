"""Lines by columns: as `textwrap` where each character takes one, and never too wide where some take two."""

import textwrap

from hypothesis import given, strategies as st

from envspec.review.diff.text import cells, pad, wrap

plain = st.text(alphabet="ab-c .,  ", max_size=120)
wide = st.text(alphabet="a 中文🟡é\u0301한 ", max_size=80)


@given(plain, st.integers(8, 20), st.integers(0, 4), st.integers(0, 4))
def test_plain_texts(text: str, width: int, first: int, rest: int) -> None:
    indents = " " * first, " " * rest
    expected = textwrap.wrap(
        text, width, initial_indent=indents[0], subsequent_indent=indents[1], break_on_hyphens=False
    )
    assert wrap(text, width, *indents) == [line.rstrip() for line in expected]


@given(wide, st.integers(8, 20))
def test_wide_texts(text: str, width: int) -> None:
    lines = wrap(text, width, "  ", "    ")
    assert all(cells(line) <= width and line == line.rstrip() for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", ""), "nothing is lost"


def test_widths() -> None:
    assert [cells(text) for text in ("ab", "中文", "é", "e\u0301")] == [2, 4, 1, 1]
    assert pad("中", 4) == "中  "
    assert wrap("中文中文 中文", 5) == ["中文", "中文", "中文"]
