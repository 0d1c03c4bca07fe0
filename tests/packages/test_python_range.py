"""What is asked of Python's version."""

import pytest

from envspec.packages.python_range import binding_range, parse_python, releases_of


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
