"""Who requires, leads: in which order the spec's own requirements are held at their newest, and what is let go.

Here a small complete solver stands in for uv, which chooses like it: what comes first gets its newest release. With uv
itself: test_leads_with_uv.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import cast

import pytest
from hypothesis import event, given, settings, strategies as st
from packaging.requirements import Requirement
from support.examples import examples

from envspec.net.index_proxy.releases import Release
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.pip.leads import LeadCase, lead_order, leading, paths_from
from envspec.resolve.pip.loop import Answer as Answered, Reviews, Settled, settle
from envspec.resolve.pip.newest import fitting_releases, is_behind
from envspec.resolve.pip.problem import Problem
from envspec.resolve.pip.reading import Reading
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found, FoundFile

Pages = Mapping[str, "Page"]
"""Packages, their releases, and of each its day and its requirements."""
Page = dict[str, tuple[str, Sequence[str]]]
Answer = dict[str, str]


def release(version: str, day: str) -> Release:
    return Release(version, ("p-1-py3-none-any.whl",), False, False, None, f"{day}T00:00:00Z")


def newest_first(pages: Pages, name: str) -> list[str]:
    return sorted(pages.get(name, ()), key=lambda one: [int(part) for part in one.split(".")], reverse=True)


def answers(pages: Pages, lines: Iterable[str]) -> Iterator[Answer]:
    """Every answer to requirements, in the order in which a depth-first solver finds them."""

    def search(waiting: Sequence[Requirement], chosen: Answer, bounds: Sequence[Requirement]) -> Iterator[Answer]:
        if not waiting:
            yield chosen
            return
        name = waiting[0].name
        if name in chosen:
            yield from search(waiting[1:], chosen, bounds)
            return
        for version in newest_first(pages, name):
            more = [Requirement(line) for line in pages[name][version][1]]
            now, all_bounds = {**chosen, name: version}, [*bounds, *more]
            if all(now[one.name] in one.specifier for one in all_bounds if one.name in now):
                yield from search([*waiting[1:], *more], now, all_bounds)

    asked = [Requirement(line) for line in lines]
    yield from search([one for one in asked if not one.specifier], {}, asked)


class StandIn:
    """A solver of direct requirements by name, with constraints. `asked` are those of each question."""

    def __init__(self, pages: Pages, names: Sequence[str]) -> None:
        self.pages, self.names, self.asked = pages, names, list[tuple[str, ...]]()

    def ask(self, bounds: tuple[str, ...] = ()) -> tuple[Found, ...]:
        self.asked.append(bounds)
        found = self._answer(bounds)
        if found is None:
            needed = list(bounds)
            for one in bounds:
                if self._answer([other for other in needed if other != one]) is None:
                    needed.remove(one)
            no = Unsatisfiable("no")
            no.about = tuple(Requirement(one).name for one in needed)
            raise no
        files = (FoundFile("", "p-1-py3-none-any.whl", None),)
        return tuple(Found(name, version, files) for name, version in found.items())

    def _answer(self, bounds: Iterable[str]) -> Answer | None:
        return next(answers(self.pages, [*self.names, *bounds]), None)

    def case(self, own: tuple[Found, ...]) -> LeadCase:
        def releases(name: str) -> list[Release]:
            return [release(one, self.pages[name][one][0]) for one in newest_first(self.pages, name)]

        def requires(name: str, version: str) -> Sequence[str]:
            return self.pages[name][version][1] if version in self.pages.get(name, ()) else ()

        edges = {one.name: requires(one.name, str(one.version)) for one in own}
        request = Request("linux-64", "3.12", "2.28", tuple(sorted(self.names)), direct=tuple(self.names))
        return LeadCase(
            request,
            own,
            {},
            lambda: edges,
            releases,
            lambda name: fitting_releases(name, request, releases),
            releases,
            requires,
        )


def led(solver: StandIn, own: tuple[Found, ...], last: Mapping[str, str]) -> tuple[Found, ...]:
    """What the loop settles on beside uv's own answer."""

    def ask(problem: Problem) -> Answered:
        packages = solver.ask(problem.lines("constraint")) if problem.bounds else own
        return Answered(problem, packages, cast("Reading", None), lambda name: ())

    case = solver.case(own)
    begun = Problem(Request("linux-64", "3.12", "2.28", ()))
    settled = settle(begun, ask, Reviews((), ()), lambda answer: leading(case, last))
    assert isinstance(settled, Settled)
    return settled.answer.packages


def locked(pages: Pages, *names: str, last: Mapping[str, str] | None = None) -> tuple[Answer, StandIn]:
    solver = StandIn(pages, names)
    found = led(solver, solver.ask(), last or {})
    return {one.name: str(one.version) for one in found}, solver


def order(solver: StandIn) -> list[str]:
    case = solver.case(solver.ask())
    return lead_order(case, paths_from(case, {}))


def behind(pages: Pages, answer: Answer, names: Iterable[str]) -> set[str]:
    found = set()
    for name in names:
        page = [release(one, pages[name][one][0]) for one in newest_first(pages, name)]
        own = next(one for one in page if one.version == answer[name])
        found |= {name} if is_behind(own, page[0], name, page) else set()
    return found


def yearly(*releases: Sequence[str], first: int = 2020) -> Page:
    return {f"{n}.0": (f"{first + n}-01-01", lines) for n, lines in enumerate(releases, start=1)}


TORCH: Page = {"2.10": ("2026-01-21", []), "2.12": ("2026-05-01", ["setuptools<82"])}
SETUPTOOLS: Page = {"81.0": ("2026-02-01", []), "84.0": ("2026-11-01", [])}


def test_torch_stays_at_its_newest_beside_a_requirement_of_its_own() -> None:
    pages: dict[str, Page] = {"torch": TORCH, "setuptools": SETUPTOOLS}
    for names in (("setuptools", "torch"), ("torch", "setuptools")):
        answer, solver = locked(pages, *names)
        assert answer == {"torch": "2.12", "setuptools": "81.0"} and len(solver.asked) <= 2


def test_what_requires_torch_leads_it() -> None:
    """As vLLM, which goes back by years for a torch that is a patch newer."""
    server: Page = {"0.2": ("2023-11-01", []), "0.30": ("2026-10-01", ["torch==2.11"])}
    pages: dict[str, Page] = {"server": server, "torch": {"2.11": ("2026-03-01", []), "2.12": ("2026-05-01", [])}}
    for names in (("torch", "server"), ("server", "torch")):
        answer, solver = locked(pages, *names)
        assert answer == {"torch": "2.11", "server": "0.30"} and len(solver.asked) <= 2


def test_a_path_through_others_leads_too() -> None:
    pages: dict[str, Page] = {
        "app": {"1.0": ("2026-01-01", ["mid"])},
        "mid": {"1.0": ("2026-01-01", ["deep"])},
        "deep": {"1.0": ("2026-01-01", ["torch==2.11"]), "0.1": ("2026-01-01", [])},
        "torch": {"2.11": ("2026-03-01", []), "2.12": ("2026-05-01", [])},
    }
    solver = StandIn(pages, ("torch", "app"))
    assert order(solver) == ["app", "torch"]


def test_what_lies_on_the_path_bounds_it_too() -> None:
    """As funasr, transformers and huggingface-hub: uv has transformers first, and for the newest hub it would go back
    to 2021."""
    pages: dict[str, Page] = {
        "hub": {"1.33": ("2026-09-01", []), "2.4": ("2026-10-01", [])},
        "funasr": {"1.1": ("2026-01-01", ["transformers"])},
        "transformers": {"4.12": ("2021-11-01", []), "5.0": ("2026-05-01", ["hub<2"])},
    }
    solver = StandIn(pages, ("hub", "funasr"))
    own = solver.ask(("hub<2",))
    assert led(solver, own, {}) == own and len(solver.asked) == 1


def test_of_two_that_require_neither_frameworks_come_first_then_the_specs_order() -> None:
    pages: dict[str, Page] = {name: {"1.0": ("2026-01-01", [])} for name in ("b", "jax", "a", "torch")}
    solver = StandIn(pages, ("b", "jax", "a", "torch"))
    assert order(solver) == ["jax", "torch", "b", "a"]


def test_members_of_a_cycle_come_in_the_same_order() -> None:
    pages: dict[str, Page] = {"b": {"1.0": ("2026-01-01", ["torch"])}, "torch": {"1.0": ("2026-01-01", ["b"])}}
    solver = StandIn(pages, ("b", "torch"))
    assert order(solver) == ["torch", "b"]


def test_none_falls_behind_to_bring_another_forward() -> None:
    """boto3 of today leaves s3fs 0.4.2 of 2020; of last month, s3fs of today."""
    core: Page = {f"1.{n}": (f"2026-{n:02}-01", []) for n in range(1, 12)}
    pages: dict[str, Page] = {
        "boto3": {f"1.{n}": (f"2026-{n:02}-01", [f"core==1.{n}"]) for n in range(1, 12)},
        "core": core,
        "s3fs": {"0.4.2": ("2020-03-01", []), "2026.9": ("2026-09-20", ["aio"]), "2026.10": ("2026-10-20", ["aio"])},
        "aio": {"3.1": ("2026-10-01", ["core<1.10"])},
    }
    for names in (("boto3", "s3fs"), ("s3fs", "boto3")):
        answer, solver = locked(pages, *names)
        assert (answer["s3fs"], answer["boto3"]) == ("2026.10", "1.9") and len(solver.asked) <= 5, answer


def test_where_one_must_be_behind_the_latest_in_the_order_is() -> None:
    torch: Page = {"2.10": ("2025-01-01", ["lib<2"]), "2.14": ("2026-10-01", ["lib<2"])}
    pages: dict[str, Page] = {"torch": torch, "lib": yearly([], [], [], [])}
    answer, solver = locked(pages, "lib", "torch")
    assert answer == {"torch": "2.14", "lib": "1.0"} and len(solver.asked) <= 2


def test_what_the_only_release_requires_costs_no_question() -> None:
    pages: dict[str, Page] = {"pinned": {"1.0": ("2024-01-01", ["base<2"])}, "base": yearly([], [], [])}
    answer, solver = locked(pages, "base", "pinned")
    assert answer == {"base": "1.0", "pinned": "1.0"} and len(solver.asked) == 1


def test_nothing_is_asked_where_all_are_at_their_newest() -> None:
    answer, solver = locked({"a": yearly([], []), "b": yearly([])}, "a", "b")
    assert answer == {"a": "2.0", "b": "1.0"} and len(solver.asked) == 1


def test_nothing_goes_below_the_last_lock() -> None:
    """Whatever the newest of another would want."""
    pages: dict[str, Page] = {
        "new": {"1.0": ("2026-01-01", []), "2.0": ("2026-02-01", ["old<2"])},
        "old": {"1.0": ("2026-01-01", []), "2.0": ("2026-02-01", [])},
    }
    answer, _ = locked(pages, "new", "old", last={"old": "2.0", "new": "1.0"})
    assert answer == {"new": "1.0", "old": "2.0"}
    assert locked(pages, "new", "old")[0] == {"new": "2.0", "old": "1.0"}


NAMES = ("a", "b", "c", "torch", "x", "y")
bounds = st.sampled_from(("", "", "<2", "<3", "<4", ">=2", ">=3", "==2.0"))


@st.composite
def indexes(draw: st.DrawFn) -> Pages:
    pages: dict[str, Page] = {}
    for name in NAMES:
        day = datetime(2022, 1, 1, tzinfo=timezone.utc)
        for version in range(1, draw(st.integers(1, 4)) + 1):
            day += timedelta(days=draw(st.sampled_from((20, 200, 400))))
            others = draw(st.lists(st.sampled_from([one for one in NAMES if one != name]), unique=True, max_size=2))
            lines = [other + draw(bounds) for other in others]
            pages.setdefault(name, {})[f"{version}.0"] = f"{day:%Y-%m-%d}", lines
    return pages


@pytest.mark.slow
@given(indexes(), st.permutations(("a", "b", "torch", "x")), st.integers(2, 4))
@settings(max_examples=examples(150, night=800), deadline=None)
def test_none_is_behind_but_where_one_is_in_every_answer(pages: Pages, order: list[str], many: int) -> None:
    names = order[:many]
    try:
        answer, solver = locked(pages, *names)
    except Unsatisfiable:
        return event("no answer")
    assert len(solver.asked) <= 5
    far = behind(pages, answer, names)
    event(f"{len(solver.asked)} questions, {len(far)} behind")
    assert not far or all(behind(pages, other, names) for other in answers(pages, names)), (answer, far)


@pytest.mark.slow
@given(indexes(), st.permutations(("a", "b", "torch", "x")), st.data())
@settings(max_examples=examples(100, night=400), deadline=None)
def test_nothing_of_the_spec_goes_below_the_last_lock(pages: Pages, names: list[str], data: st.DataObject) -> None:
    every = list(answers(pages, names))
    if not every:
        return event("no answer")
    last = data.draw(st.sampled_from(every))
    answer, solver = locked(pages, *names, last={name: last[name] for name in names})
    event(f"{len(solver.asked)} questions")
    assert all(float(answer[name]) >= float(last[name]) for name in names), (answer, last)


@pytest.mark.parametrize("spec", [("a", "b"), ("b", "a")])
def test_the_first_of_the_spec_is_held_where_both_cant_be(spec: tuple[str, str]) -> None:
    """Neither falls behind: their newest are of the same month."""
    one: Page = {"1.0": ("2026-01-01", []), "2.0": ("2026-02-01", ["x==1.0"])}
    other: Page = {"1.0": ("2026-01-01", []), "2.0": ("2026-02-01", ["x==2.0"])}
    pages: dict[str, Page] = {"a": one, "b": other, "x": yearly([], [], first=2024)}
    answer, _ = locked(pages, *spec)
    assert answer[spec[0]] == "2.0" and answer[spec[1]] == "1.0"
