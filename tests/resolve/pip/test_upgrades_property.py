"""Random small indexes that grow: however a lock is upgraded, nothing that the spec asks for by name goes back."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import event, given, settings, strategies as st
from resolutions import lock
from support.examples import examples
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel
from support.uv_questions import questions

from envspec.lock.model import Lock
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.workflow.keep import Upgrade

pytestmark = pytest.mark.e2e

ASKED = ("a", "b", "c")
BELOW = ("x", "y")
TARGETS = """
[targets.one]
platform = 'linux-64'
[targets.two]
platform = 'osx-arm64'
[targets.two.pip]
dependencies = ['y']
"""

bounds = st.sampled_from(("", "", "<=1", "<=2", "<=3", "<=4", ">=1", ">=2", ">=3", "==3"))


@st.composite
def indexes(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Releases of packages: name, version and what they ask of others, within bounds; the newest come last."""
    found = []
    for version in range(1, 6):
        for name in (*ASKED, *BELOW):
            others = [other for other in (*ASKED, *BELOW) if other > name]
            needs = draw(st.lists(st.sampled_from(others), unique=True, max_size=2)) if others else []
            found.append((name, f"{version}.0", *(other + draw(bounds) for other in needs)))
    return found


def versions(locked: Lock) -> dict[tuple[str, str], int]:
    return {(target.name, pin.name): int(pin.version[0]) for target in locked for pin in target.pins if pin.direct}


ways = st.sampled_from([Upgrade(everything=True), *(Upgrade(packages=frozenset({name})) for name in (*ASKED, *BELOW))])


@contextmanager
def four_questions_more() -> Iterator[None]:
    """Hold uv to four runs besides its answer, for whatever solution."""
    with questions() as asked:
        yield
    runs = max(map(len, asked.values()))
    assert runs <= 5, asked
    event(f"uv runs {runs} times")


# a wheel for another machine, which is passed over
unfit = st.sampled_from([(), (wheel("y", "9.0", tag="cp312-cp312-manylinux_2_39_x86_64"),)])


@pytest.mark.slow
@given(indexes(), st.integers(5, 20), st.lists(ways, min_size=1, max_size=3), unfit)
@settings(max_examples=examples(10, night=300), deadline=None)
@four_questions_more()
def test_no_way_to_upgrade_goes_back(
    dists: list[tuple[str, ...]], known: int, steps: list[Upgrade], unfit: tuple[Dist, ...]
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Index() as index:
        first, later = (Machine(Path(folder) / name, default=index.url) for name in ("first", "later"))
        for machine in (first, later):
            machine.spec(cpu(*ASKED, targets=TARGETS))
        index.add(*unfit, *(wheel(*one) for one in dists[:known]))
        try:
            before = lock(first)
        except Unsatisfiable:
            return event("no solution")
        assert lock(first, before, Upgrade(everything=True)) == before
        index.add(*(wheel(*one) for one in dists[known:]))
        for step in steps:
            after = lock(later, before, step)
            back = {key for key, version in versions(before).items() if versions(after)[key] < version}
            assert not back, (back, step)
            event("moved" if after != before else "unchanged")
            before = after


@pytest.mark.slow
@given(indexes(), st.integers(5, 20), ways, st.sampled_from(ASKED), unfit)
@settings(max_examples=examples(5, night=300), deadline=None)
@four_questions_more()
def test_every_way_to_upgrade_comes_to_an_end(
    dists: list[tuple[str, ...]], known: int, first: Upgrade, raised: str, unfit: tuple[Dist, ...]
) -> None:
    """Whatever came before it: also what a bot did, which raises a bound in the spec and locks."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Index() as index:
        early, later, bot = (Machine(Path(folder) / name, default=index.url) for name in ("early", "later", "bot"))
        for machine in (early, later):
            machine.spec(cpu(*ASKED, targets=TARGETS))
        index.add(*unfit, *(wheel(*one) for one in dists[:known]))
        try:
            before = lock(early)
        except Unsatisfiable:
            return event("no solution")
        index.add(*(wheel(*one) for one in dists[known:]))
        end = lock(later, before, Upgrade(everything=True))
        newest = min(version for (_, name), version in versions(end).items() if name == raised)
        bot.spec(cpu(*(f"{name}>={newest}" if name == raised else name for name in ASKED), targets=TARGETS))
        for machine, way in ((later, first), (bot, Upgrade())):
            other = lock(machine, lock(machine, before, way), Upgrade(everything=True))
            # what a step took stays: where a newer a and a newer b don't go together, either is an end
            assert versions(lock(machine, other, Upgrade(everything=True))) == versions(other), way
        for machine, way in ((bot, Upgrade()), *((later, Upgrade(packages=frozenset({name}))) for name in ASKED)):
            assert versions(lock(machine, end, way)) == versions(end), way


def test_a_bound_that_was_raised_sends_nothing_else_back(machine: Machine, index: Index) -> None:
    """b 5.0 wants an older c than the last lock has: b's new bound admits 4.0 too."""
    index.add(*(wheel(*one) for one in (("b", "3.0"), ("c", "2.0"), ("c", "3.0"))))
    machine.spec(cpu("b", "c"))
    before = lock(machine)
    index.add(wheel("b", "4.0"), wheel("b", "5.0", "c<=2"), wheel("c", "4.0"))
    later = Machine(machine.base / "later", default=index.url)
    later.spec(cpu("b>=4", "c"))
    bot = lock(later, before)
    assert versions(bot) == {("cpu", "b"): 4, ("cpu", "c"): 3}
    assert versions(lock(later, bot, Upgrade(everything=True))) == {("cpu", "b"): 4, ("cpu", "c"): 4}


@pytest.mark.slow
def test_what_another_target_takes_sends_nothing_of_this_one_back(machine: Machine, index: Index) -> None:
    """Target one may have y 1.0 for a 5.0; two asks for y itself, and its last lock has 4.0."""
    index.add(*(wheel(name, "4.0") for name in (*ASKED, "y")))
    machine.spec(cpu(*ASKED, targets=TARGETS))
    before = lock(machine)
    index.add(wheel("a", "5.0", "y<=1"), wheel("y", "1.0"), wheel("y", "5.0"))
    later = Machine(machine.base / "later", default=index.url)
    later.spec(cpu(*ASKED, targets=TARGETS))
    after = versions(lock(later, before, Upgrade(everything=True)))
    assert (after["one", "a"], after["two", "a"], after["two", "y"]) == (5, 4, 5)
