"""What locking tells: each thing once, with the targets it holds for; errors stop it."""

import pytest

from envspec.base.errors import Infeasible, InfeasibleTargets, Place
from envspec.base.finding import Finding
from envspec.resolve.workflow.notices import merge_findings, notes_among

HERE = Place("specs/s.toml", 3, 1)
WARNING = Finding("warning", "odd", "it is odd", HERE, "make it even")
ERROR = Finding("error", "wrong", "it is wrong", HERE, "make it right")


def test_a_finding_is_told_once_with_its_targets() -> None:
    found = notes_among(merge_findings([("a", (WARNING,)), ("b", ()), ("c", (WARNING,))]))
    assert found == (Finding("warning", "odd", "it is odd", HERE, "make it even", targets=("a", "c")),)


def test_an_error_is_raised() -> None:
    with pytest.raises(Infeasible, match="a, b: it is wrong") as error:
        notes_among(merge_findings([("a", (ERROR,)), ("b", (ERROR, WARNING))]))
    assert (error.value.hint, error.value.place) == ("make it right", HERE)


def test_several_errors_are_raised_together() -> None:
    other = Finding("error", "worse", "it is worse")
    with pytest.raises(InfeasibleTargets) as several:
        notes_among(merge_findings([("a", (ERROR,)), ("b", (other,))]))
    assert [error.message for error in several.value.errors] == ["a: it is wrong", "b: it is worse"]
