"""The lines of a requirements.txt are those that pip's own parser reads."""

import pytest
from hypothesis import example, given, settings, strategies as st
from pip._internal.req.req_file import ignore_comments, join_lines
from support.examples import examples

from envspec.packages.other_formats import logical_lines

_PIECES = ["six", "idna>=2", "\\", "\n", "\r\n", " ", "\t", "#", " # why", "--hash=sha256:0", "-r", "\x0b", "\u2028"]


def read_by_pip(text: str) -> list[tuple[int, str]]:
    return list(ignore_comments(join_lines(enumerate(text.splitlines(), start=1))))


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join))
@example("six\nidna \\")
@example("six\nidna \\ \nattrs")
@example("six # why \\\nidna")
@example("# why \\\nidna")
@example("six \\\n# why\nidna")
@example("six\\\n>=1")
@example("\\\n\\\n\\")
def test_they_are_pips(text: str) -> None:
    assert list(logical_lines(text)) == read_by_pip(text)


@pytest.mark.parametrize("end", ["\\", " \\", "\\\n", " \\\n", " \\\\", " # why \\", "  --hash=sha256:00 \\"])
def test_the_last_line_may_end_in_a_backslash(end: str) -> None:
    lines = [line.partition(" ")[0] for _, line in logical_lines(f"six\nidna{end}")]
    assert lines == ["six", "idna"]
