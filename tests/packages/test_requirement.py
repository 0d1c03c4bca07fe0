"""The plain reading of requirements says what `packaging` says, or nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from envspec.packages.requirement import (
    admits,
    canonical_name,
    head_of,
    is_requirement,
    parse_requirement,
    plain_requirement,
    plain_specifier,
    published_requirement,
)
from envspec.rules import specifier
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
        assert plain_requirement(text) is None
        return
    expected.name = canonicalize_name(expected.name)
    expected.extras = {canonicalize_name(extra) for extra in expected.extras}
    found = requirement(text)
    assert (found.text, found.name, found.identity) == (str(expected), expected.name, (expected.name, ""))


@given(st.lists(CLAUSES, max_size=3).map(",".join), RELEASES)
def test_a_specifier_admits_what_packaging_admits(text: str, release: str) -> None:
    plain = plain_specifier(text)
    try:
        expected = SpecifierSet(text)
    except InvalidSpecifier:
        assert plain is None
        return
    assert plain is not None
    numbers = tuple(int(number) for number in release.split("."))
    assert admits(plain, numbers) == expected.contains(release, prereleases=True)
    # a plain specifier has no local part, and then that of a version doesn't count
    assert admits(plain, numbers) == expected.contains(f"{release}+cu128", prereleases=True)


@given(st.text(alphabet="ab1.*=<>!~,[]; @-_+ \n", max_size=14))
def test_what_is_plain_is_valid(text: str) -> None:
    if plain_requirement(text) is not None:
        Requirement(text)
    if plain_specifier(text) is not None:
        SpecifierSet(text)


@given(NAMES)
def test_canonical_names(name: str) -> None:
    assert canonical_name(name) == canonicalize_name(name)


@pytest.mark.parametrize(
    "text",
    [
        "a; python_version>'3'",
        "a @ https://a.example/a.whl",
        "a==1.0a1",
        "a==1+cu126",
        "a===1",
        "a==v1",
        "a>=1.*",
        "a==1,==1.0",
    ],
)
def test_what_is_not_plain(text: str) -> None:
    assert plain_requirement(text) is None


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
    assert specifier.parse(text).admits(version) is admitted


def test_specifiers_are_joined() -> None:
    joined = specifier.parse(">=2.6") & specifier.parse("<2.9")
    assert str(joined) == ">=2.6,<2.9"
    assert [version for version in ("2.5.1", "2.6.0", "2.9.0") if joined.admits(version)] == ["2.6.0"]
    assert specifier.parse(">=2.9.0rc1").bounds() == ((2, 9, 0),)
    assert specifier.parse("==2.9.1+cu126").local() == "cu126"


def test_a_plain_spec_needs_no_packaging() -> None:
    code = (
        "import sys; from envspec.spec.values import requirement; from envspec.rules.judge import judge;"
        "requirement('torch==2.9.*'); print('packaging' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


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
