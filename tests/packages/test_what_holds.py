"""What requirements ask for, in which targets they hold, and what they lead to."""

from collections.abc import Iterator
from pathlib import Path

import packaging.markers
import pytest
from packaging.requirements import InvalidRequirement

from envspec.lock.read import load
from envspec.packages.edges import Markers, reach
from envspec.packages.requirement import canonical_name, head_of, is_requirement, published_requirement

TRICKY = ("a", "A_b [X.y, z] (>=1) ;extra=='x'", "a[ ]", "a@https://example.org/a;b ; python_version<'3'",
          "a>=1.0.*,<2", "a [x] @ file:///x", "a===1;b", 'a; platform_version == "#1; x@y"')  # fmt: skip


def test_what_a_requirement_asks_for_is_what_it_says() -> None:
    locks = (Path(__file__).resolve().parents[2] / "locks").glob("*/envspec.lock")
    pins = {pin for path in locks for target in load(path) for pin in target.pins if pin.kind == "pip"}
    texts = {text for pin in pins for text in pin.dependencies}
    assert len(texts) > 400
    for text in (*sorted(texts), *TRICKY):
        try:
            whole = published_requirement(text)
        except InvalidRequirement:
            with pytest.raises(ValueError, match="Expected"):
                head_of(text)
            continue
        extras = frozenset(canonical_name(extra) for extra in whole.extras)
        # a plain marker is no value of packaging's, but says the same
        head = head_of(text)
        assert (head.name, head.extras, str(head.marker)) == (canonical_name(whole.name), extras, str(whole.marker))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("pytz>=1.0.*,<3", "pytz<3,>=1.0"),
        ("pytz (>=1.0.*,<3) ; python_version >= '3'", 'pytz<3,>=1.0; python_version >= "3"'),
        ("pytz>=2a1.*", "pytz>=2a1"),
        ("pytz>=1.0,", "pytz>=1.0"),
        ("pytz==1.*", "pytz==1.*"),
    ],
)
def test_spellings_of_old_releases(written: str, meant: str) -> None:
    assert str(published_requirement(written)) == meant
    assert head_of(written) == head_of(meant)
    assert is_requirement(written)


@pytest.mark.parametrize("text", ["not a requirement", "a;", "a; b", "a>=1..*", "a @", "a>=1;python_version"])
def test_what_is_no_requirement(text: str) -> None:
    assert not is_requirement(text)
    with pytest.raises(InvalidRequirement):
        published_requirement(text)


def test_markers_hold_with_one_of_the_extras_or_without_any() -> None:
    markers = Markers("linux-64", "3.12")
    assert markers.hold("a")
    assert not markers.hold("a; extra == 'x'")
    assert markers.hold("a; extra == 'X_y'", {"z", "x-y"})
    assert markers.hold("a; extra != 'x'", {"x"})
    assert not markers.hold("a; extra == 'x' and sys_platform == 'win32'", {"x"})


def test_a_marker_says_nothing_of_this_machine() -> None:
    release = packaging.markers.default_environment()["platform_release"]
    assert not Markers("linux-64", "3.12").hold(f"a; platform_release == '{release}'")


def test_reach_asks_again_for_more_extras() -> None:
    calls: list[tuple[str, frozenset[str]]] = []
    none: frozenset[str] = frozenset()
    edges = {"a": [("b", none), ("c", none)], "b": [], "c": [("b", frozenset("x")), ("a", none)]}

    def following(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
        calls.append((name, extras))
        return iter(edges[name])

    assert reach([("a", none)], following) == {"a": none, "b": frozenset("x"), "c": none}
    assert calls == [("a", none), ("b", none), ("c", none), ("b", frozenset("x"))]
