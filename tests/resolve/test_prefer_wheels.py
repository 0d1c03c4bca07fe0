"""What `allow-source` means: source only where no wheel will do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from envspec.errors import IndexFailure, Unsatisfiable
from envspec.resolve.prefer_wheels import prefer_wheels
from envspec.resolve.request import Request
from envspec.resolve.uv import Found

BASE = Request("linux-64", "3.12", "2.28", ("alpha>=2", "beta", "numpy"), allow_source=("alpha", "beta"))


def no_source(name: str, specifiers: str) -> str | None:
    return None


class Answers:
    """Answers by what is asked: the names that have a wheel, and whether a solution with these sources exists."""

    def __init__(self, wheels: set[str], solvable: Callable[[tuple[str, ...]], bool]) -> None:
        self.wheels = wheels
        self.solvable = solvable
        self.probes: list[tuple[str, ...]] = []
        self.solved: list[tuple[str, ...]] = []

    def __call__(self, request: Request, no_deps: bool) -> tuple[Found, ...]:
        if no_deps:
            assert request.allow_source == (), "a probe must build nothing"
            self.probes.append(request.requirements)
            if request.requirements[0].partition(">")[0] not in self.wheels:
                raise Unsatisfiable("no wheel")
            return (Found(request.requirements[0].partition(">")[0], "1.0"),)
        self.solved.append(request.allow_source)
        if not self.solvable(request.allow_source):
            raise Unsatisfiable(f"with {request.allow_source}")
        return (Found("x", "1"),)


def test_nothing_is_probed_where_nothing_may_be_built() -> None:
    answers = Answers(set(), lambda sources: True)
    prefer_wheels(Request("linux-64", "3.12", None, ("alpha",)), answers, no_source)
    assert (answers.probes, answers.solved) == ([], [()])


def test_each_is_asked_for_as_the_spec_asks_for_it() -> None:
    answers = Answers(set(), lambda sources: True)
    prefer_wheels(BASE, answers, no_source)
    assert sorted(answers.probes) == [("alpha>=2",), ("beta",)]
    assert answers.solved == [("alpha", "beta")]


def test_what_has_a_wheel_is_not_built() -> None:
    answers = Answers({"alpha"}, lambda sources: True)
    prefer_wheels(BASE, answers, no_source)
    assert answers.solved == [("beta",)]


def test_source_after_all_where_no_wheel_goes_with_the_rest() -> None:
    answers = Answers({"alpha"}, lambda sources: "alpha" in sources)
    assert prefer_wheels(BASE, answers, no_source) == (Found("x", "1"),)
    assert answers.solved == [("beta",), ("alpha", "beta")]


def test_the_conflict_that_is_told_is_that_of_the_wheels() -> None:
    with pytest.raises(Unsatisfiable, match=r"with \('beta',\)"):
        prefer_wheels(BASE, Answers({"alpha"}, lambda sources: False), no_source)


def test_an_address_is_no_matter_of_wheels() -> None:
    answers = Answers(set(), lambda sources: True)
    request = Request("linux-64", "3.12", None, ("alpha @ git+https://host/alpha@main",), allow_source=("alpha",))
    prefer_wheels(request, answers, no_source)
    assert (answers.probes, answers.solved) == ([], [("alpha",)])


def test_a_failing_index_is_told_by_the_solution() -> None:
    def ask(request: Request, no_deps: bool) -> tuple[Found, ...]:
        raise IndexFailure("probe" if no_deps else "solution")

    with pytest.raises(IndexFailure, match="solution"):
        prefer_wheels(BASE, ask, no_source)


def test_a_wheel_older_than_the_newest_source_will_not_do() -> None:
    asked = []

    def newest(name: str, specifiers: str) -> str | None:
        asked.append((name, specifiers))
        return "1.1" if name == "alpha" else "1.0"

    answers = Answers({"alpha", "beta"}, lambda sources: True)
    prefer_wheels(BASE, answers, newest)
    assert answers.solved == [("alpha",)]
    assert sorted(asked) == [("alpha", ">=2"), ("beta", "")]


def test_a_page_that_cannot_be_read_leaves_the_wheel() -> None:
    def unreadable(name: str, specifiers: str) -> str | None:
        raise IndexFailure("offline")

    answers = Answers({"alpha"}, lambda sources: True)
    prefer_wheels(BASE, answers, unreadable)
    assert answers.solved == [("beta",)]
