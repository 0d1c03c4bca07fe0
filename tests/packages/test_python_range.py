"""What is asked of Python's version."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from packaging.specifiers import SpecifierSet
from support.examples import examples

from envspec.packages.python_range import binding_range, bound_of, narrow, parse_python, releases_of, specifier_of
from envspec.packages.tags import takes_python


@pytest.mark.parametrize(
    ("published", "kept"),
    [
        (None, None),
        (">=3.9", None),
        (">3.8", None),
        (">=3.12.4", ">=3.12.4"),
        (">=3.9, <4", "<4,>=3.9"),
        (">=3.9,!=3.9.0", "!=3.9.0,>=3.9"),
        ("~=3.10.0", "~=3.10.0"),
        ("==3.12.*", "==3.12.*"),
        (">=3.6.*", None),
        ("3", None),
    ],
)
def test_a_lock_holds_what_may_refuse_this_python_or_a_later_one(published: str | None, kept: str | None) -> None:
    assert binding_range(published, "3.12") == kept


def test_releases_of_a_minor_version() -> None:
    assert releases_of("3.12", "<3.13,>=3.11")[:2] == ("3.12.0", "3.12.1")
    assert releases_of("3.12", "==3.12.4") == ("3.12.4",)
    assert releases_of("3.12", ">=3.13") == ()


def test_what_is_no_version() -> None:
    assert parse_python(">=4", ("3.12",)) is None
    with pytest.raises(ValueError):
        parse_python(">=x", ("3.12",))


PATCHES = st.integers(0, 18)
VERSIONS = st.one_of(st.integers(8, 14).map("3.{}".format), st.builds("3.{}.{}".format, st.integers(8, 14), PATCHES))
CLAUSES = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "==="]), VERSIONS),
    st.builds("{}3.{}.*".format, st.sampled_from(["==", "!="]), st.integers(8, 14)),
    VERSIONS.map("~={}".format),
)
SPECIFIERS = st.lists(CLAUSES, min_size=1, max_size=3).map(",".join)
MINORS = tuple(f"3.{minor}" for minor in range(8, 15))


@settings(max_examples=examples(100))
@given(SPECIFIERS, SPECIFIERS)
@example("==3.11.*", "<=3.11")
@example(">=3.8,<3.13", ">3.11,<3.12.4")
@example("==3.11.*", "===3.11.5")
def test_two_bounds_together_admit_what_both_do(bound: str, more: str) -> None:
    together = narrow(bound, more, MINORS)
    both = [one for minor in MINORS for one in releases_of(minor, bound) if SpecifierSet(more).contains(one)]
    assert [one for minor in MINORS for one in releases_of(minor, together) if together] == both
    assert (together is None) == (not both)


@settings(max_examples=examples(50))
@given(SPECIFIERS, st.sampled_from(MINORS))
def test_a_bound_of_one_minor_version_admits_the_same(bound: str, minor: str) -> None:
    if releases := releases_of(minor, bound):
        assert releases_of(minor, bound_of(releases)) == releases


@settings(max_examples=examples(20))
@given(SPECIFIERS, SPECIFIERS)
def test_a_specifier_of_alternatives(one: str, other: str) -> None:
    written = specifier_of(lambda version: takes_python(one, version) or takes_python(other, version))
    for version in (version for minor in MINORS for version in releases_of(minor, None)):
        assert (written is not None and takes_python(written, version)) == (
            takes_python(one, version) or takes_python(other, version)
        )


OWN = sys.version_info[:3]
SIGNS = ("==", "!=", "<", "<=", ">", ">=", "~=")
AROUND = (
    *(f"{sign}3.{OWN[1]}.{OWN[2] + more}" for sign in (*SIGNS, "===") for more in (0, 1)),
    *(f"{sign}3.{OWN[1]}" for sign in SIGNS),
    f">=3.8,<=3.{OWN[1]}", f">3.{OWN[1]},<3.{OWN[1] + 1}.4", f"==3.{OWN[1]}.*", f">=3.{OWN[1]}.0,!=3.{OWN[1]}.{OWN[2]}",
)  # fmt: skip


@pytest.mark.e2e
@pytest.mark.parametrize("requires", AROUND)
def test_uv_refuses_the_interpreters_that_we_do(requires: str, tmp_path: Path) -> None:
    from uv import find_uv_bin

    (tmp_path / "pyproject.toml").write_text(
        f'[project]\nname = "a"\nversion = "1"\nrequires-python = "{requires}"\n', encoding="utf-8"
    )
    command = [find_uv_bin(), "lock", "--offline", "--no-config", "--python", sys.executable]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    refused = "incompatible with the project's Python requirement" in ran.stderr
    # a bound that no version is within, uv refuses by itself
    assert ran.returncode == 0 or refused or "no intersection" in ran.stderr, ran.stderr
    minor = f"3.{OWN[1]}"
    assert (ran.returncode == 0) == (platform.python_version() in releases_of(minor, requires)), ran.stderr
