"""The pages of docs/decisions: numbered, and each overruled one names a page that is there."""

from collections import Counter

from tools.reference.decisions import FOLDER, STATUS, decisions


def test_every_number_is_one_page() -> None:
    """Two branches that add a page can take the same number: the second takes the next one."""
    assert [number for number, count in Counter(one.name[:4] for one in decisions()).items() if count > 1] == []


def test_a_page_is_overruled_by_one_that_exists() -> None:
    overruling = [found[2] for one in decisions() if (found := STATUS.fullmatch(one.status)) and found[2]]
    assert overruling and [name for name in overruling if not (FOLDER / name).exists()] == []
