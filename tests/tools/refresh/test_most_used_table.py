"""The table of the most used names, made from a ranking."""

from typing import Any

import pytest
import tomli

from envspec.base.errors import InputError
from tools.refresh.most_used_table import COUNT, table_from

RANKING = {"last_update": "2026-04-01 06:34:06", "rows": [{"project": "NumPy"}, {"project": "zope.interface"}]}


def test_names_are_normalised_and_sorted() -> None:
    found = tomli.loads(table_from(RANKING, "ab" * 20))
    assert (found["names"].split(), found["as-of"]) == (["numpy", "zope-interface"], "2026-04-01")
    assert "ab" * 20 in found["sources"]["downloads"]


def test_the_least_used_are_left_out() -> None:
    rows = [{"project": f"p{number}"} for number in range(COUNT + 5)]
    names = tomli.loads(table_from({**RANKING, "rows": rows}, "ab" * 20))["names"].split()
    assert len(names) == COUNT and f"p{COUNT}" not in names


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"rows": []},
        {"rows": [{}], "last_update": "2026-04-01"},
        {**RANKING, "rows": []},
        {**RANKING, "last_update": "today"},
        {**RANKING, "rows": [{"project": 'a"""\nb'}]},
    ],
)
def test_what_is_no_ranking_is_refused(document: Any) -> None:
    with pytest.raises(InputError, match="isn't a ranking"):
        table_from(document, "ab" * 20)
