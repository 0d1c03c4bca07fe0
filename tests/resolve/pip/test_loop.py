"""The loop of a resolution, with a stand-in for uv: what reviews bound, what conflicts cost, and that it ends."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import cast

import pytest
from msgspec.structs import replace

from envspec.base.errors import EnvspecError, IndexFailure, Infeasible, InternalError
from envspec.packages.conflict import Clause, Conflict, Unsatisfiable
from envspec.resolve.pip.leads import Leading
from envspec.resolve.pip.loop import Answer, End, Reviews, Settled, Unsettled, settle
from envspec.resolve.pip.problem import Bound, Problem, Strength
from envspec.resolve.pip.reading import Reading
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found, FoundFile

BEGUN = Problem(Request("linux-64", "3.12", "2.28", ("app",)), "cpu")


def no_leads(own: Answer) -> Leading:
    return Leading((), versions(own), {}, {}, {})


def lead_app(own: Answer) -> Leading:
    return Leading(
        ("app",), versions(own), {"app": ">=2.0"}, {"app": ">=1.5"}, {}, is_near=versions(own)["app"] >= "1.5"
    )


def answer(problem: Problem, **packages: str) -> Answer:
    found = tuple(Found(name, version, (FoundFile("", f"{name}.whl", None),)) for name, version in packages.items())
    return Answer(problem, found, cast("Reading", None), lambda name: ())


def versions(one: Answer) -> dict[str, str]:
    return {package.name: str(package.version) for package in one.uv_packages}


def conflict(*names: str) -> Unsatisfiable:
    error = Unsatisfiable("cpu: no")
    error.conflict = Conflict(tuple(Clause("requires", other=name) for name in names))
    return error


class Uv:
    """Answers by what a problem bounds. `asked` has the bounds of each question."""

    def __init__(self, answers: Callable[[Problem], Answer]) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._answers = answers

    def __call__(self, problem: Problem) -> Answer:
        self.asked.append(tuple(f"{bound.form} {bound.line}" for bound in problem.bounds))
        return self._answers(problem)


def test_it_asks_until_no_review_has_a_new_bound() -> None:
    def review(one: Answer) -> Iterator[Bound]:
        version = versions(one)["app"]
        if version != "1.0":
            yield Bound(f"app<{version}")

    uv = Uv(lambda problem: answer(problem, app=f"{3 - len(problem.bounds)}.0"))
    settled = settle(BEGUN, uv, Reviews((review,), ()), no_leads)
    assert isinstance(settled, Settled)
    assert (versions(settled.first), versions(settled.answer)) == ({"app": "3.0"}, {"app": "1.0"})
    assert uv.asked == [(), ("constraint app<3.0",), ("constraint app<3.0", "constraint app<2.0")]


def test_a_review_that_gives_the_same_bound_again_ends_it() -> None:
    uv = Uv(lambda problem: answer(problem, app="1.0"))
    settled = settle(BEGUN, uv, Reviews((lambda one: (Bound("app", "source"),),), ()), no_leads)
    assert isinstance(settled, Settled) and uv.asked == [(), ("source app",)]


def test_a_review_that_always_has_a_new_bound_ends_in_an_error_of_ours() -> None:
    numbers = count()
    uv = Uv(lambda problem: answer(problem, app="1.0"))
    with pytest.raises(InternalError, match="cpu: no end after"):
        settle(BEGUN, uv, Reviews((lambda one: (Bound(f"app!={next(numbers)}"),),), ()), no_leads)


def test_the_cheapest_review_looks_first() -> None:
    seen: list[str] = []

    def look(name: str, *bounds: Bound) -> Callable[[Answer], Iterable[Bound]]:
        def review(one: Answer) -> Iterable[Bound]:
            seen.append(name)
            return bounds

        return review

    reviews = Reviews((look("first", Bound("app<2")), look("second")), ())
    settle(BEGUN, Uv(lambda problem: answer(problem, app="1.0")), reviews, no_leads)
    assert seen == ["first", "first", "second"]


def test_what_refuses_an_answer_is_given_with_the_problem_that_has_none() -> None:
    def review(one: Answer) -> Iterable[Bound]:
        if one.problem.bounds:
            raise Infeasible("cpu: no")
        return (Bound("app<2"),)

    ended = settle(BEGUN, Uv(lambda problem: answer(problem, app="1.0")), Reviews((review,), ()), no_leads)
    assert isinstance(ended, Unsettled) and isinstance(ended.refusal, Infeasible)
    assert ended.problem.lines("constraint") == ("app<2",)


def test_a_conflict_may_be_mended_by_what_uv_hasnt_seen() -> None:
    def ask(problem: Problem) -> Answer:
        if not problem.bounds:
            raise conflict("app")
        return answer(problem, app="1.0")

    def relax(problem: Problem, error: EnvspecError) -> Iterator[Bound]:
        assert isinstance(error, Unsatisfiable)
        yield Bound("app", "source")

    settled = settle(BEGUN, Uv(ask), Reviews((), (relax,)), no_leads)
    assert isinstance(settled, Settled) and settled.answer.problem.question.unfit == ("app",)
    failing = settle(BEGUN, Uv(ask), Reviews((), ()), no_leads)
    assert isinstance(failing, Unsettled) and failing.problem == BEGUN


def test_what_fails_outside_is_raised() -> None:
    def ask(problem: Problem) -> Answer:
        raise IndexFailure("the index is down")

    with pytest.raises(IndexFailure):
        settle(BEGUN, ask, Reviews((), ()), no_leads)


def test_a_conflict_of_leaders_costs_the_newest_before_what_isnt_behind() -> None:
    """Each of the four questions has less; then uv's own answer stands."""

    def ask(problem: Problem) -> Answer:
        if problem.is_led:
            raise conflict("app")
        return answer(problem, app="1.0")

    uv = Uv(ask)
    settled = settle(BEGUN, uv, Reviews((), ()), lead_app)
    assert isinstance(settled, Settled) and versions(settled.answer) == {"app": "1.0"}
    assert uv.asked == [(), ("constraint app>=1.5", "constraint app>=2.0"), ("constraint app>=1.5",)]


def test_what_an_answer_needed_is_found_again_beside_leaders_but_for_pre_releases() -> None:
    def review(one: Answer) -> Iterator[Bound]:
        if not one.problem.is_led:
            yield Bound("app<9", why="9 doesn't take Python 3.12")
            yield Bound("b", "final")

    uv = Uv(lambda problem: answer(problem, app="2.0" if problem.is_led else "1.0"))
    settled = settle(BEGUN, uv, Reviews((review,), ()), lead_app)
    assert isinstance(settled, Settled)
    assert uv.asked[-1] == ("final b", "constraint app>=1.5", "constraint app>=2.0")
    assert (versions(settled.own), versions(settled.answer)) == ({"app": "1.0"}, {"app": "2.0"})


def test_leaders_yield_before_rules() -> None:
    assert Strength.NEWEST < Strength.NEAR < Strength.UPGRADE < Strength.RULE
    assert not BEGUN.beside(Bound("app<2")).is_led
    assert BEGUN.beside(Bound("app>=2", strength=Strength.UPGRADE)).is_led


def test_the_question_has_all_bounds() -> None:
    bounds = (
        Bound("a<2"),
        Bound("b @ git+https://x.example/b", "requirement"),
        Bound("c", "source"),
        Bound("d", "final"),
    )
    question = BEGUN.beside(*bounds).question
    assert question.constraints == ("a<2",) and question.unfit == ("c",)
    assert question.requirements == ("app", "b @ git+https://x.example/b")
    assert BEGUN.beside(*bounds).lines("final") == ("d",)


def begin_anew(*problems: Problem) -> Callable[[End], Problem | End]:
    following = iter(problems)
    return lambda end: next(following, end)


def test_an_end_that_isnt_the_last_word_begins_anew() -> None:
    """Nothing of the first run's bounds is left."""

    def review(one: Answer) -> Iterator[Bound]:
        if not one.problem.is_fresh:
            yield Bound("app<2")

    uv = Uv(lambda problem: answer(problem, app="1.0"))
    again = replace(BEGUN, is_fresh=True)
    settled = settle(BEGUN, uv, Reviews((review,), (), begin_anew(again)), no_leads)
    assert isinstance(settled, Settled) and settled.problem == again
    assert uv.asked == [(), ("constraint app<2",), ()]


def test_what_refuses_the_last_answer_is_an_end_to_begin_anew_from() -> None:
    seen: list[End] = []

    def look(end: End) -> Problem | End:
        seen.append(end)
        if isinstance(end, Unsettled):
            return replace(BEGUN, is_fresh=True)
        if not end.problem.is_fresh:
            raise Infeasible("cpu: app 1.0 names no torch")
        return end

    uv = Uv(lambda problem: answer(problem, app="1.0"))
    settled = settle(BEGUN, uv, Reviews((), (), look), no_leads)
    assert isinstance(settled, Settled) and settled is seen[-1]
    assert [type(one) for one in seen] == [Settled, Unsettled, Settled] and seen[1].problem == BEGUN


@pytest.mark.parametrize(("is_fallback", "raised"), [(False, "second"), (True, "first")])
def test_a_refusal_of_a_spare_problem_says_less_than_the_one_before(is_fallback: bool, raised: str) -> None:
    refusals = iter((Infeasible("first"), Infeasible("second")))

    def ask(problem: Problem) -> Answer:
        raise next(refusals)

    again = replace(BEGUN, is_fallback=is_fallback)
    ended = settle(BEGUN, ask, Reviews((), (), begin_anew(again)), no_leads)
    assert isinstance(ended, Unsettled) and str(ended.refusal) == raised


def test_beginning_anew_for_ever_ends_in_an_error_of_ours() -> None:
    uv = Uv(lambda problem: answer(problem, app="1.0"))
    with pytest.raises(InternalError, match="cpu: no end after"):
        settle(BEGUN, uv, Reviews((), (), lambda end: BEGUN), no_leads)
