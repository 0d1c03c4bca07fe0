"""The order of installation is pip's, and says what may be installed side by side."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from support.examples import examples

from envspec.lock.model import LockedTarget, Pin, TargetInputs
from envspec.lock.shared_paths import SharedPath, in_install_order, overwrites, pip_order, shared_paths, waves

NAMES = "abcdefg"
EXTRAS = ("", "[x]", "[x,y]")


def locked(asked: list[str], requires: Mapping[str, list[str]]) -> LockedTarget:
    pins = tuple(Pin("pip", name, "1", "pypi", None, tuple(requires.get(name, ()))) for name in NAMES)
    return LockedTarget("t", TargetInputs("linux-64", "3.12", "2.28", requirements=tuple(asked)), pins)


def of_pip(asked: list[str], requires: Mapping[str, list[str]]) -> list[str]:
    """The order that pip makes of the same graph (`Resolver.get_installation_order`)."""
    from pip._internal.resolution.resolvelib.resolver import get_topological_weights
    from pip._vendor.resolvelib.structs import DirectedGraph

    graph: DirectedGraph[str | None] = DirectedGraph()
    graph.add(None)

    def add(above: str | None, line: str) -> None:
        line = line.partition(";")[0].strip()
        name, extras = line[0], line[1:]
        new = line not in graph
        if new:
            graph.add(line)
        graph.connect(above, line)
        if not new:
            return
        if extras:
            add(line, name)
        for one in requires.get(name, ()):
            marker = one.partition("extra == ")[2].strip("'")
            if not marker or marker in extras:
                add(line, one)

    for line in asked:
        add(None, line)
    names = {name for name in graph if name and len(name) == 1}
    weights = get_topological_weights(graph, set(names))
    return sorted(names, key=lambda name: (weights[name], name), reverse=True)


@given(st.data())
@settings(max_examples=examples(100))
def test_the_order_is_pips(data: st.DataObject) -> None:
    requires = {}
    for place, name in enumerate(NAMES):
        # without cycles, in which pip promises no order
        below = st.sampled_from([one + extra for one in NAMES[place + 1 :] for extra in EXTRAS] or ["none"])
        marker = st.sampled_from(["", "; extra == 'x'", "; extra == 'y'"])
        lines = data.draw(st.lists(st.tuples(below, marker).map("".join), max_size=3, unique=True))
        requires[name] = [line for line in lines if not line.startswith("none")]
    asked = data.draw(st.lists(st.sampled_from([one + extra for one in NAMES for extra in EXTRAS]), max_size=4))
    order = of_pip(asked, requires)
    assert [name for name in pip_order(locked(asked, requires)) if name in order] == order


def test_conda_packages_come_first_and_then_pips_in_its_order() -> None:
    target = locked(["a"], {"a": ["b"], "b": ["c"]})
    pins = (*target.pins, Pin("conda", "z", "1", "conda-forge/linux-64", None))
    order = [pin.name for pin in in_install_order(replace(target, pins=pins))]
    assert order[0] == "z" and order[1:] == list(pip_order(target)) and order[-3:] == ["c", "b", "a"]


def test_a_cycle_has_an_order_too() -> None:
    order = pip_order(locked(["a"], {"a": ["b"], "b": ["c", "d"], "c": ["b"]}))
    assert order.index("d") < order.index("c") < order.index("b") < order.index("a")


@pytest.mark.parametrize(
    ("contents", "parts"),
    [
        ({"a": {"p": "1"}, "b": {"q": "1"}}, [["a", "b"]]),
        ({"a": {"p": "1"}, "b": {"p": "1"}}, [["a", "b"]]),
        ({"a": {"p": "1"}, "b": {"p": "2"}, "c": {"q": "1"}}, [["a", "c"], ["b"]]),
        ({"a": {"p": "1"}, "b": {"p": "2", "q": "1"}, "c": {"q": "2"}}, [["a"], ["b"], ["c"]]),
    ],
)
def test_what_overwrites_comes_later(contents: dict[str, dict[str, str]], parts: list[list[str]]) -> None:
    assert waves(list(contents), overwrites(shared_paths(contents.items()))) == parts


def test_whose_content_stays() -> None:
    found = shared_paths([("a", {"p": "1", "q": "0"}), ("b", {"p": "1"}), ("c", {"q": "1"})])
    assert list(found) == [SharedPath("p", ("a", "b"), differs=False), SharedPath("q", ("a", "c"), differs=True)]
