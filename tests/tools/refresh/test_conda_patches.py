"""conda-forge's patches, read as bounds between packages. The texts here are our own, in that language."""

from datetime import datetime, timezone
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st
from packaging.version import Version

from envspec.base.errors import InputError
from tools.refresh.conda_bounds import specifier_text
from tools.refresh.conda_patches import Patch, When, patches_of


def read(text: str) -> tuple[Patch, ...]:
    patches, left_out = patches_of({"a.yaml": text})
    assert left_out == ()
    return patches


def bounds(then: str, conditions: str = "name: frame") -> list[tuple[str, str]]:
    text = f"if: {{{conditions}}}\nthen:\n  - {then}\n"
    return [(patch.dependency, specifier_text(patch.bound)) for patch in read(text)]


def reason(then: str, conditions: str = "name: frame") -> str:
    patches, left_out = patches_of({"a.yaml": f"if: {{{conditions}}}\nthen:\n  - {then}\n"})
    assert patches == () and {one.file for one in left_out} == {"a.yaml"}
    (found,) = {one.reason for one in left_out}
    return found


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("add_depends: lib9 >=1.2", [("lib9", ">=1.2")]),
        ("add_depends: [lib9 <2, lib8 >=3]", [("lib9", "<2"), ("lib8", ">=3")]),
        ("add_constrains: lib9<3", [("lib9", "<3")]),
        ("tighten_depends: {name: lib9, upper_bound: '2.0'}", [("lib9", "<2")]),
        ("tighten_depends: {name: lib9, upper_bound: 82, max_pin: x}", [("lib9", "<82")]),
        ("replace_depends: {old: lib9, new: lib9 <2.0a0}", [("lib9", "<2")]),
        ("replace_depends: {old: 'lib9 >=1.1', new: 'lib9 >=1.1,<2.0a0'}", [("lib9", "<2")]),
        ("replace_depends: {old: 'lib9 >=*', new: '${old},<4'}", [("lib9", "<4")]),
        ("replace_depends: {old: 'lib9?( *)', new: 'lib9 >=2.9,<2.10'}", [("lib9", ">=2.9,<2.10")]),
        ("replace_constrains: {old: 'lib9 >=1.2', new: 'lib9 >=1.2,<1.4'}", [("lib9", "<1.4")]),
    ],
)
def test_bounds(then: str, expected: list[tuple[str, str]]) -> None:
    assert bounds(then) == expected


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("loosen_depends: {name: lib9, max_pin: x}", "it loosens, removes, renames"),
        ("remove_depends: lib9", "it loosens, removes, renames"),
        ("rename_depends: {old: lib9, new: lib8}", "it loosens, removes, renames"),
        ("replace_depends: {old: lib9 <2, new: lib8 <2}", "it loosens, removes, renames"),
        ("replace_depends: {old: 'lib9 >=1,<2', new: lib9 >=1}", "it adds no bound"),
        ("add_depends: lib9", "it adds no bound"),
        ("add_depends: python >=3.9", "it concerns Python itself or the machine"),
        ("add_depends: __glibc >=2.17", "it concerns Python itself or the machine"),
        ("add_depends: lib9 2.4.1 cuda118_*", "it names a build"),
        ("add_depends: lib9 1.2|1.3", "it names a build"),
        ("add_depends: 'lib9 ==${version}'", "the bound is relative to the build"),
        ("tighten_depends: {name: lib9, max_pin: x.x}", "the bound is relative to the build"),
        ("tighten_depends: {name: lib*, upper_bound: 2}", "it names no single dependency"),
        ("tighten_depends: 3", "it isn't a patch"),
        ("replace_depends: {new: lib9}", "it isn't a patch"),
    ],
)
def test_what_is_no_bound_is_left_out(then: str, expected: str) -> None:
    assert reason(then).startswith(expected)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ("has_depends: 'lib9 >=1'", "it names no single package"),
        ("name: lib*", "it names no single package"),
        ("name: frame, subdir_in: linux-64", "it concerns some builds"),
        ("name: frame, build: '*py38*'", "it concerns some builds"),
        ("name: frame, artifact_in: frame-1-0.conda", "it concerns some builds"),
        ("name: frame, timestamp_gt: 1", "it concerns some builds"),
        ("name: frame, has_depends: cuda-version*", "it depends on other dependencies"),
        ("name: frame, has_depends: 'python >=3.8,<3.9.0a0'", "it depends on other dependencies"),
        ("name: frame, version_lt: 2021a_x", "its versions aren't of PEP 440"),
        ("name: frame, timestamp_lt: soon", "it isn't a patch"),
        ("name: frame, timestamp_lt: 99999999999999999999", "it isn't a patch"),
    ],
)
def test_what_is_said_of_builds_is_left_out(conditions: str, expected: str) -> None:
    assert reason("add_depends: lib9 <2", conditions).startswith(expected)


def test_conditions() -> None:
    (patch,) = read(
        """\
if:
  name_in: [frame, frame-core]
  version_ge: 1.2.0
  version_lt: "2.0"
  timestamp_lt: 1700000000000
  subdir_in: noarch
  has_depends: ["lib9*", "python >=3.9*"]
  not_has_depends: lib9 *,<2.0a0
then:
  - tighten_depends: {name: lib9, upper_bound: 2}
"""
    )
    assert patch.packages == ("frame", "frame-core")
    day = datetime(2023, 11, 1, tzinfo=timezone.utc)
    assert patch.when == When(
        (((">="), "1.2.0"), ("<", "2.0")), (), datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
    )
    assert [v for v in ("1.1", "1.2", "1.9.post1", "2.0") if patch.when.admits(Version(v), day)] == ["1.2", "1.9.post1"]
    assert not patch.when.admits(Version("1.2"), datetime(2023, 11, 15, tzinfo=timezone.utc))
    assert not patch.when.admits(Version("1.2"), None)


def test_versions_by_name_and_by_pattern() -> None:
    (patch,) = read("if: {name: frame, version_in: ['1.2.0', '2.*']}\nthen: [{add_depends: lib9 <2}]\n")
    admitted = [v for v in ("1.2", "1.2.1", "2.0", "2.5.1", "3.0") if patch.when.admits(Version(v), None)]
    assert admitted == ["1.2", "2.0", "2.5.1"]


@pytest.mark.parametrize("condition", ["build_number: 0", "build_number_lt: 2", "build: pyhd8ed1ab_0"])
def test_builds_that_were_mended_later(condition: str) -> None:
    (patch,) = read(f"if: {{name: frame, version: '1.2', {condition}}}\nthen: [{{add_depends: lib9 <2}}]\n")
    assert patch.when.first_builds


def test_several_documents_and_empty_ones() -> None:
    one = "if: {name: frame}\nthen: [{add_depends: lib9 <2}]\n"
    assert len(read(f"# a comment\n{one}---\n{one}---\n")) == 2
    assert read("") == () == read("# a comment\n")


@pytest.mark.parametrize("text", ["if: [", "a: b: c", "\t- x", "x: *unknown"])
def test_a_file_that_is_no_yaml_is_named_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^b\.yaml:\d+: it isn't YAML: "):
        patches_of({"a.yaml": "", "b.yaml": text})


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["lib9 <2", "${old}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["old", "new", "name", "upper_bound", "max_pin"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_conditions = st.dictionaries(
    st.sampled_from(["name", "name_in", "version", "version_lt", "timestamp_lt", "has_depends", "build_number", "odd"]),
    _values,
    max_size=4,
)
_instructions = st.lists(
    st.dictionaries(st.sampled_from(["add_depends", "replace_depends", "tighten_depends", "odd"]), _values) | _values,
    max_size=3,
)


@given(st.lists(st.fixed_dictionaries({"if": _conditions | _values, "then": _instructions | _values}) | _values))
def test_whatever_the_documents_hold(documents: list[Any]) -> None:
    """Each of them is a bound between names, or left out for a reason."""
    patches, left_out = patches_of({"a.yaml": yaml.safe_dump_all(documents)})
    assert all(patch.packages and patch.dependency and patch.bound for patch in patches)
    assert all(one.reason for one in left_out)
