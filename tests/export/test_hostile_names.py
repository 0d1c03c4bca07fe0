"""What is hostile in a name is refused by the spec; what gets through is a name."""

from dataclasses import replace

import pytest
from hostile_specs import PIECES, QUICKLY, Names, Words, must_be_clear, odd_names, project, whole
from hypothesis import given
from support.matrix import by_day

from envspec.base.errors import SpecError

FIELDS = tuple(Names.__dataclass_fields__)


@QUICKLY
@given(odd_names)
def test_odd_names_are_names(names: Names) -> None:
    whole(names, Words())


@pytest.mark.by_commit(3)
@pytest.mark.by_day(1)
@pytest.mark.parametrize("field", by_day(FIELDS, lambda field: field in ("name", "target", "channel")))
def test_what_is_hostile_in_a_name_is_refused(field: str) -> None:
    """Every piece alone, before and behind the name. What a spec lets through is looked at as a whole."""
    plain = getattr(Names(), field)
    through = []
    for piece in PIECES:
        for value in (piece, plain + piece, piece + plain):
            names = replace(Names(), **{field: value})
            try:
                project(names, Words())
            except SpecError as error:
                must_be_clear(error)
            else:
                through.append(names)
    for names in through[::3] if len(through) > len(PIECES) else through:
        whole(names, Words())
