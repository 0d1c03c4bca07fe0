"""The graph of a target: markers, extras, both ecosystems, cycles."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st
from lock_samples import conda, inputs, sample_lock, wheel
from msgspec import structs

from envspec.lock.graph import Edge, Graph, Node, Tree
from envspec.lock.model import LockedTarget, Pin


def graph(*pins: Pin, roots: tuple[str, ...], conda_roots: tuple[str, ...] = (), platform: str = "linux-64") -> Graph:
    values = structs.replace(inputs(*roots), conda_requirements=conda_roots, platform=platform)
    return Graph.of(LockedTarget("t", values, pins))


def names(path: tuple[Edge, ...]) -> list[str]:
    return [edge.target.name for edge in path]


def lines(trees: tuple[Tree, ...], depth: int = 0) -> list[str]:
    out = []
    for tree in trees:
        out.append("  " * depth + tree.node.name + (" *" if tree.repeated else ""))
        out += lines(tree.children, depth + 1)
    return out


def unreachable(graph: Graph) -> tuple[Node, ...]:
    """The pins that no requirement of the spec leads to."""
    return tuple(node for node in graph.pins if node not in graph.outgoing)


def test_markers_are_judged_for_the_target() -> None:
    pins = (
        wheel(
            "a", "1", 'win; sys_platform == "win32"', 'arm; platform_machine == "arm64"', 'old; python_version<"3.9"'
        ),
        wheel("win", "1"),
        wheel("arm", "1"),
        wheel("old", "1"),
    )
    assert [edge.target.name for edge in graph(*pins, roots=("a",)).outgoing[Node("pip", "a")]] == []
    on_a_mac = graph(*pins, roots=("a",), platform="osx-arm64")
    assert [edge.target.name for edge in on_a_mac.outgoing[Node("pip", "a")]] == ["arm"]
    assert [node.name for node in unreachable(on_a_mac)] == ["win", "old"]


def test_extras_travel() -> None:
    pins = (
        wheel("app", "1", "lib[Fast_IO]; extra == 'all'", "plain"),
        wheel("lib", "1", 'io; extra == "fast-io"', 'never; extra == "slow"'),
        wheel("io", "1"),
        wheel("never", "1"),
        wheel("plain", "1"),
    )
    without = graph(*pins, roots=("app",))
    assert sorted(node.name for node in unreachable(without)) == ["io", "lib", "never"]
    whole = graph(*pins, roots=("app[all]",))
    assert [node.name for node in unreachable(whole)] == ["never"]
    assert whole.extras[Node("pip", "lib")] == {"fast-io"}


def test_an_extra_that_is_asked_for_later_opens_a_package_again() -> None:
    pins = (
        wheel("a", "1", "lib"),
        wheel("b", "1", "lib[x]"),
        wheel("lib", "1", 'more; extra == "x"'),
        wheel("more", "1"),
    )
    for roots in (("a", "b"), ("b", "a")):
        assert unreachable(graph(*pins, roots=roots)) == ()


def test_a_package_that_asks_for_its_own_extra() -> None:
    pins = (wheel("a", "1", 'a[x]; extra == "all"', 'more; extra == "x"'), wheel("more", "1"))
    assert unreachable(graph(*pins, roots=("a[all]",))) == ()


def test_across_conda_and_pip() -> None:
    target = sample_lock().target("cpu")
    assert target
    whole = Graph.of(target)
    assert whole.missing == ()
    assert unreachable(whole) == ()
    paths = whole.paths_to("NumPy")
    assert [names(path) for path in paths] == [["numpy"], ["torch", "numpy"], ["deepspeed", "torch", "numpy"]]
    assert [edge.kind for edge in paths[1]] == ["pip", "pip"]
    assert paths[0][0].target == Node("conda", "numpy")
    assert [names(path) for path in whole.paths_to("libstdcxx")] == [["ffmpeg", "libstdcxx"]]


def test_what_is_missing() -> None:
    pins = (conda("a", "1", "gone >=1", "__cuda"), wheel("b", "1", "away>2"))
    found = graph(*pins, roots=("b", "c"), conda_roots=("a", "conda-forge::d[version='>=3']")).missing
    assert sorted((m.source.name if m.source else "", m.requirement) for m in found) == [
        ("", "c"),
        ("", "conda-forge::d[version='>=3']"),
        ("a", "gone >=1"),
        ("b", "away>2"),
    ]


def test_paths_come_shortest_first_and_survive_cycles() -> None:
    pins = (wheel("a", "1", "b", "c"), wheel("b", "1", "c", "a"), wheel("c", "1", "b", "d"), wheel("d", "1", "a"))
    whole = graph(*pins, roots=("a", "b"))
    found = [names(path) for path in whole.paths_to("d", limit=10)]
    assert found == [["a", "c", "d"], ["b", "c", "d"], ["a", "b", "c", "d"], ["b", "a", "c", "d"]]
    assert [names(path) for path in whole.paths_to("d", limit=1)] == [["a", "c", "d"]]
    assert whole.paths_to("nothing") == ()


def test_paths_to_both_packages_of_a_name_come_shortest_first() -> None:
    """The spec asks for conda's itself, and leads to it by two others; to pip's by one."""
    pins = (conda("d", "1"), conda("b", "1", "d"), conda("c", "1", "b"), wheel("a", "1", "d"), wheel("d", "1"))
    found = graph(*pins, roots=("a",), conda_roots=("d", "c")).paths_to("d", limit=10)
    assert [len(path) for path in found] == [1, 2, 3]


def test_many_ways_do_not_explode() -> None:
    pins = [wheel("p0", "1", "q0", "r0")]
    for n in range(40):
        following = (f"q{n + 1}", f"r{n + 1}")
        pins += [wheel(f"q{n}", "1", *following), wheel(f"r{n}", "1", *following)]
    pins += [wheel("q40", "1"), wheel("r40", "1")]
    found = graph(*pins, roots=("p0",)).paths_to("q40", limit=5)
    assert [len(path) for path in found] == [42] * 5
    assert len(set(found)) == 5


def test_tree() -> None:
    pins = (wheel("a", "1", "b", "c"), wheel("b", "1", "c"), wheel("c", "1", "a", "d"), wheel("d", "1"))
    whole = graph(*pins, roots=("a", "d"))
    assert lines(whole.tree()) == ["a", "  b", "    c", "      a *", "      d", "  c *", "d"]
    assert lines(whole.tree(depth=1)) == ["a", "  b", "  c", "d"]
    chain = (wheel("a", "1", "b"), wheel("b", "1", "c"), wheel("c", "1", "d"), wheel("d", "1"))
    again = ["a", "  b", "    c", "b", "  c", "    d"]
    assert lines(graph(*chain, roots=("a", "b")).tree(depth=2)) == again, "there is room for more of b the second time"
    assert lines(whole.inverse("c")) == ["c", "  a", "    c *", "  b", "    a *"]


EDGES = st.dictionaries(st.integers(0, 7), st.sets(st.integers(0, 7)), max_size=8)


@given(EDGES, st.sets(st.integers(0, 7), min_size=1), st.integers(0, 7))
def test_paths_are_paths(edges: dict[int, set[int]], roots: set[int], wanted: int) -> None:
    pins = tuple(wheel(f"p{n}", "1", *(f"p{m}" for m in sorted(edges.get(n, ())))) for n in range(8))
    whole = graph(*pins, roots=tuple(f"p{n}" for n in sorted(roots)))
    paths = whole.paths_to(f"p{wanted}", limit=20)
    assert (paths == ()) == (Node("pip", f"p{wanted}") not in whole.outgoing)
    assert [len(path) for path in paths] == sorted(len(path) for path in paths)
    assert len({tuple(names(path)) for path in paths}) == len(paths)
    for path in paths:
        assert path[0].source is None
        assert path[0] in whole.roots
        assert path[-1].target.name == f"p{wanted}"
        assert len(set(names(path))) == len(path)
        for before, after in pairwise(path):
            assert after.source == before.target
            assert after in whole.outgoing[before.target]


@given(EDGES, st.sets(st.integers(0, 7), min_size=1), st.integers(0, 8))
def test_a_tree_of_a_depth_has_all_that_is_as_near(edges: dict[int, set[int]], roots: set[int], depth: int) -> None:
    pins = tuple(wheel(f"p{n}", "1", *(f"p{m}" for m in sorted(edges.get(n, ())))) for n in range(8))
    trees = graph(*pins, roots=tuple(f"p{n}" for n in sorted(roots))).tree(depth)
    near = set(roots)
    for _ in range(depth):
        near |= {m for n in near for m in edges.get(n, ())}
    assert {line.strip(" *") for line in lines(trees)} == {f"p{n}" for n in near}


def test_names_of_one_kind_are_those_of_the_other() -> None:
    pins = (conda("pytorch", "1", provides=("torch",)), conda("ruamel.yaml", "1"), wheel("ruamel-yaml", "2"))
    whole = graph(*pins, roots=())
    assert whole.find("Torch") == whole.find("pytorch") == (Node("conda", "pytorch"),)
    assert whole.find("ruamel_yaml") == (Node("conda", "ruamel.yaml"), Node("pip", "ruamel-yaml"))
    both = graph(*pins, wheel("torch", "1"), roots=())
    assert both.find("torch") == (Node("pip", "torch"),), "what has the name goes before what provides it"
