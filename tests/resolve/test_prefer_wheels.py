"""What `allow-source` means: source only where no wheel will do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from envspec.errors import IndexFailure, Unsatisfiable
from envspec.resolve.prefer_wheels import prefer_wheels, refuse_strays
from envspec.resolve.request import Request
from envspec.resolve.uv import Found, FoundFile

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


def stray(version: str, request: Request, source: str | None, kept: Mapping[str, str] | None = None) -> list[str]:
    """Judge a solution with one wheel of alpha; gives the specifiers that the page was asked for with."""
    asked = []

    def newest(name: str, specifiers: str) -> str | None:
        asked.append(specifiers)
        return source

    file = FoundFile(f"https://host/alpha-{version}-py3-none-any.whl", f"alpha-{version}-py3-none-any.whl", "0" * 64)
    refuse_strays([Found("alpha", version, (file,))], request, kept or {}, newest, "cpu")
    return asked


def asking(*lines: str, allow_source: tuple[str, ...] = (), constraints: tuple[str, ...] = ()) -> Request:
    return Request("linux-64", "3.12", None, lines, allow_source=allow_source, constraints=constraints)


def test_a_pre_release_older_than_the_newest_source_is_refused() -> None:
    with pytest.raises(Unsatisfiable, match=r"^cpu: alpha 1\.0 is on offer as source only") as refused:
        stray("0.3.dev1", asking("alpha<2"), "1.0")
    assert 'allow-source = ["alpha"] in [pip]' in str(refused.value.hint)
    assert stray("0.3.dev1", asking("alpha<2"), "0.3.dev1") == stray("0.3.dev1", asking("alpha<2"), None) == ["<2"]


@pytest.mark.parametrize(
    ("version", "request_", "kept"),
    [
        ("0.3", asking("alpha"), {}),
        ("0.3.dev1", asking("alpha>=0.3.dev1"), {}),
        ("0.3.dev1", asking("alpha", constraints=("alpha==0.3.dev1",)), {}),
        ("0.3.dev1", asking("alpha", allow_source=("alpha",)), {}),
        ("0.3.dev1", asking("alpha"), {"alpha": "0.3.dev1"}),
    ],
    ids=["release", "named", "named in a constraint", "source is allowed", "kept"],
)
def test_no_page_is_read_for_what_is_no_stray(version: str, request_: Request, kept: Mapping[str, str]) -> None:
    assert stray(version, request_, "1.0", kept) == []


def test_a_stray_that_cannot_be_judged_is_not_taken_in_silence() -> None:
    def unreadable(name: str, specifiers: str) -> str | None:
        raise IndexFailure("not in the cache", hint="run without --offline once")

    found = Found("alpha", "0.3.dev1", (FoundFile("https://host/a.whl", "a.whl", "0" * 64),))
    with pytest.raises(IndexFailure, match="can't be told: not in the cache") as failure:
        refuse_strays([found], asking("alpha"), {}, unreadable, "cpu")
    assert str(failure.value.hint).endswith('name it in the spec: "alpha>=0.3.dev1"')
