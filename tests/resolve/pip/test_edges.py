"""Which requirements hold in a target: markers, extras, cycles; against an evaluator that is plain and slow."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, strategies as st
from packaging.requirements import Requirement

from envspec.base.errors import IndexFailure
from envspec.packages.metadata import Metadata
from envspec.packages.tags import marker_environment
from envspec.resolve.pip.edges import active_lines
from envspec.resolve.pip.request import Request


def package(name: str, *requires: str) -> tuple[str, Metadata]:
    return name, Metadata(name, "1.0", requires, (), None, None)


def edges(
    requirements: Sequence[str], *packages: tuple[str, Metadata], platform: str = "linux-64", python: str = "3.12"
) -> dict[str, tuple[str, ...]]:
    return active_lines(Request(platform, python, None, tuple(requirements)), dict(packages))


@pytest.mark.parametrize(
    ("marker", "platform", "python", "holds"),
    [
        ("python_version < '3.12'", "linux-64", "3.11", True),
        ("python_version < '3.12'", "linux-64", "3.12", False),
        ("python_version >= '3.9'", "linux-64", "3.10", True),
        ("python_full_version >= '3.12.0'", "linux-64", "3.12", True),
        ("sys_platform == 'linux'", "linux-64", "3.12", True),
        ("sys_platform == 'win32'", "win-64", "3.12", True),
        ("sys_platform == 'darwin' and platform_machine == 'arm64'", "osx-arm64", "3.12", True),
        ("platform_machine == 'x86_64'", "linux-aarch64", "3.12", False),
        ("platform_machine == 'aarch64'", "linux-aarch64", "3.12", True),
        ("platform_system == 'Linux' and platform_machine == 'x86_64'", "linux-64", "3.12", True),
        ("os_name == 'nt'", "linux-64", "3.12", False),
        ("implementation_name == 'pypy'", "linux-64", "3.12", False),
        ("extra == 'gpu'", "linux-64", "3.12", False),
        ("extra != 'gpu'", "linux-64", "3.12", True),
        ("python_version >= '3.9' and extra == 'gpu'", "linux-64", "3.12", False),
        ("(python_version >= '3.9') and extra == 'gpu'", "linux-64", "3.12", False),
        ("python_version >= '3.9' or os_name == 'nt' and extra == 'gpu'", "linux-64", "3.12", True),
        ("python_version >= '3.9'or os_name == 'nt' and extra == 'gpu'", "linux-64", "3.12", True),
        ("platform_machine != \"a and extra == 'gpu'\"", "linux-64", "3.12", True),
    ],
)
def test_markers(marker: str, platform: str, python: str, holds: bool) -> None:
    found = edges(["a"], package("a", f"b>=1; {marker}"), package("b"), platform=platform, python=python)
    assert bool(found["a"]) is holds


def test_an_extra_asked_for_by_the_spec() -> None:
    packages = package("a", "b; extra == 'Full_Set'", "c"), package("b"), package("c")
    assert edges(["a"], *packages)["a"] == ("c",)
    assert edges(["a[full-set]"], *packages)["a"] == ('b; extra == "full-set"', "c")


def test_a_chain_of_extras() -> None:
    found = edges(
        ["a"],
        package("a", "b[x]"),
        package("b", 'c[y]; extra == "x"', 'd; extra == "z"'),
        package("c", 'b[z]; extra == "y"'),
        package("d"),
    )
    assert found["b"] == ('c[y]; extra == "x"', 'd; extra == "z"')
    assert found["d"] == ()


def test_a_package_that_asks_for_its_own_extras() -> None:
    found = edges(["a[all]"], package("a", 'a[x]; extra == "all"', 'b; extra == "x"'), package("b"))
    assert found["a"] == ('a[x]; extra == "all"', 'b; extra == "x"')


def test_a_cycle_ends() -> None:
    found = edges(["a[x]"], package("a", 'b[x]; extra == "x"'), package("b", 'a[x]; extra == "x"', "a"))
    assert found == {"a": ('b[x]; extra == "x"',), "b": ("a", 'a[x]; extra == "x"')}


def test_a_spec_requirement_whose_marker_fails_asks_for_no_extra() -> None:
    assert edges(["a", "a[x]; sys_platform == 'win32'"], package("a", "b; extra == 'x'"), package("b"))["a"] == ()


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("B_c (>=1.0,<2)", "B_c<2,>=1.0"),
        ("d>=1.19.*", "d>=1.19"),
        ("d (>=1.19.*,<2) ; python_version >= '3'", 'd<2,>=1.19; python_version >= "3"'),
        ("d>=1.0,", "d>=1.0"),
        ("d==1.*", "d==1.*"),
    ],
)
def test_legacy_spellings(line: str, meant: str) -> None:
    assert edges(["a"], package("a", line), package("b-c"), package("d"))["a"] == (meant,)


def test_what_is_no_requirement() -> None:
    with pytest.raises(IndexFailure, match=r'"what is this", which isn\'t a valid requirement'):
        edges(["a"], package("a", "what is this"))


NAMES = ["a", "b", "c", "d", "e"]
EXTRAS = ["x", "y", "z"]
MARKERS = [
    "",
    "sys_platform == 'linux'",
    "sys_platform == 'win32'",
    "python_version >= '3.12'",
    *(f"extra == '{e}'" for e in EXTRAS),
]
MARKERS += [
    f"({MARKERS[1]}) and extra == 'x'",
    f"({MARKERS[2]}) or extra == 'y'",
    "extra == 'x' or extra == 'z'",
    "extra != 'x'",
]


@st.composite
def requirement(draw: st.DrawFn) -> str:
    extras = draw(st.lists(st.sampled_from(EXTRAS), max_size=2, unique=True))
    marker = draw(st.sampled_from(MARKERS))
    return (
        draw(st.sampled_from(NAMES)) + (f"[{','.join(extras)}]" if extras else "") + (f"; {marker}" if marker else "")
    )


def naive(platform: str, roots: Sequence[str], packages: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Everything anew until nothing changes: the extras asked for of each package, then the lines that hold."""
    environment = marker_environment(platform, "3.12")
    asked: dict[str, set[str]] = {name: set() for name in packages}

    def holds(line: str, extras: set[str]) -> bool:
        marker = Requirement(line).marker
        return marker is None or any(marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras))

    while True:
        before = {name: set(extras) for name, extras in asked.items()}
        active = [line for line in roots if holds(line, set())]
        active += [line for name, lines in packages.items() for line in lines if holds(line, asked[name])]
        for line in active:
            asked[Requirement(line).name] |= Requirement(line).extras
        if asked == before:
            break
    return {
        name: tuple(sorted({str(Requirement(line)) for line in lines if holds(line, asked[name])}))
        for name, lines in packages.items()
    }


@given(
    st.sampled_from(["linux-64", "win-64"]),
    st.lists(requirement(), min_size=1, max_size=3),
    st.fixed_dictionaries({name: st.lists(requirement(), max_size=4) for name in NAMES}),
)
def test_equals_the_naive_evaluator(platform: str, roots: list[str], packages: dict[str, list[str]]) -> None:
    described = {name: Metadata(name, "1.0", tuple(lines), (), None, None) for name, lines in packages.items()}
    assert active_lines(Request(platform, "3.12", None, tuple(roots)), described) == naive(platform, roots, packages)


def test_a_line_of_an_extra_that_nobody_asks_for_may_be_anything() -> None:
    packages = package("a", "b", "? what; extra == 'all'"), package("b")
    assert edges(["a"], *packages)["a"] == ("b",)
    with pytest.raises(IndexFailure, match=r'a 1\.0 requires "\? what; extra'):
        edges(["a[all]"], *packages)
