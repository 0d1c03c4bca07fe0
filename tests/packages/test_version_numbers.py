"""Versions as numbers: what envspec writes is read strictly, what others write as far as it goes."""

import pytest

from envspec.packages.version_numbers import numbers, numbers_in


def test_numbers_sort_as_versions() -> None:
    assert sorted(["12.10", "12.9", "9.0"], key=numbers) == ["9.0", "12.9", "12.10"]


@pytest.mark.parametrize("version", ["", "12.", "2.9.1rc1", "570-open", "v1"])
def test_anything_else_is_no_dotted_number(version: str) -> None:
    with pytest.raises(ValueError):
        numbers(version)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("570.86.15", (570, 86, 15)), ("2.39-0ubuntu8", (2, 39, 0, 8)), ("570-open", (570,)), ("", ())],
)
def test_what_others_write_is_read_as_far_as_it_goes(version: str, expected: tuple[int, ...]) -> None:
    assert numbers_in(version) == expected
