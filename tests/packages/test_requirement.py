"""Requirements and specifiers are read and written as `packaging` has them."""

import pytest
from hypothesis import given, strategies as st
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from envspec.base.reader.nodes import BadValue
from envspec.packages.requirement import (
    canonical_name,
    head_of,
    is_requirement,
    parse_requirement,
    published_requirement,
)
from envspec.rules import wanted
from envspec.spec.values import requirement

RELEASES = st.lists(st.integers(0, 30).map(str), min_size=1, max_size=4).map(".".join)
SPACES = st.sampled_from(["", "", " "])
CLAUSES = st.one_of(
    st.tuples(st.sampled_from(["==", "!=", ">=", "<=", "<", ">", "~="]), SPACES, RELEASES).map("".join),
    st.tuples(st.sampled_from(["==", "!="]), SPACES, RELEASES.map(lambda release: f"{release}.*")).map("".join),
)
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,6}[A-Za-z0-9])?", fullmatch=True)
REQUIREMENTS = st.builds(
    lambda name, extras, clauses, space: name + (f"[{','.join(extras)}]" if extras else "") + space + ",".join(clauses),
    NAMES,
    st.lists(NAMES, max_size=2),
    st.lists(CLAUSES, max_size=3),
    SPACES,
)


@given(REQUIREMENTS)
def test_a_requirement_is_written_as_packaging_writes_it(text: str) -> None:
    try:
        expected = Requirement(text)
    except InvalidRequirement:
        with pytest.raises(BadValue):
            requirement(text)
        return
    expected.name = canonicalize_name(expected.name)
    expected.extras = {canonicalize_name(extra) for extra in expected.extras}
    found = requirement(text)
    assert (found.text, found.name, found.identity) == (str(expected), expected.name, (expected.name, ""))


@given(NAMES)
def test_canonical_names(name: str) -> None:
    assert canonical_name(name) == canonicalize_name(name)


@pytest.mark.parametrize(
    ("text", "version", "admitted"),
    [
        ("==2.9.1+cu126", "2.9.1+cu126", True),
        ("==2.9.1+cu126", "2.9.1+cu128", False),
        ("==2.9.1+CU126", "2.9.1+cu126", True),
        (">=2.9.0rc1,<3", "2.9.0", True),
        ("===2.9.0", "2.9.0", True),
        ("==2.9.*", "2.10.0", False),
        ("", "2.0.0", True),
    ],
)
def test_odd_specifiers_are_left_to_packaging(text: str, version: str, admitted: bool) -> None:
    assert wanted.parse(text).admits(version) is admitted


def test_specifiers_are_joined() -> None:
    joined = wanted.parse(">=2.6") & wanted.parse("<2.9")
    assert str(joined) == ">=2.6,<2.9"
    assert [version for version in ("2.5.1", "2.6.0", "2.9.0") if joined.admits(version)] == ["2.6.0"]
    assert wanted.parse(">=2.9.0rc1").bounds() == ((2, 9, 0),)
    assert wanted.parse("==2.9.1+cu126").local() == "cu126"


@pytest.mark.parametrize("marker", ["\"\"<''", "'a' == 'a'", "sys_platform ~= 'linux'", "extra == 'x' and '3' > '2'"])
def test_a_comparison_without_an_answer_says_nothing_as_for_uv_but_is_an_error_in_a_spec(marker: str) -> None:
    for read in (published_requirement, head_of):
        said = read(f"lib9; {marker}").marker
        assert str(said) == ('extra == "x"' if "extra" in marker else "None")
    with pytest.raises(InvalidRequirement, match="can't be judged"):
        parse_requirement(f"lib9; {marker}")


@pytest.mark.parametrize("marker", ["extra == 'x'", "python_version in '3.8 3.9'", "platform_release >= '5.1-x'"])
def test_a_marker_that_only_looks_odd_is_one(marker: str) -> None:
    assert is_requirement(f"lib9; {marker}") and parse_requirement(f"lib9; {marker}").marker
