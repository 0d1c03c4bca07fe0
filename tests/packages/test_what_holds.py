"""What requirements ask for, in which targets they hold, and what they lead to."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import packaging.markers
import pytest
from hypothesis import given, settings, strategies as st
from packaging.markers import Marker
from packaging.requirements import InvalidRequirement
from support.examples import examples

from envspec.lock.read import load
from envspec.packages.edges import ByExtra, Markers, Overrides, effective, reach
from envspec.packages.requirement import canonical_name, head_of, is_requirement, published_requirement
from envspec.packages.tags import marker_environment

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


def test_reach_asks_for_each_extra_once() -> None:
    calls: list[tuple[str, frozenset[str], bool]] = []
    none, x = frozenset[str](), frozenset("x")
    edges = {"a": [("b", none), ("c", none)], "b": [], "c": [("b", frozenset("xy")), ("b", x), ("a", none)]}

    def following(name: str, added: frozenset[str], first: bool) -> Iterator[tuple[str, frozenset[str]]]:
        calls.append((name, added, first))
        return iter(edges[name])

    assert reach([("a", none), ("b", x)], following) == {"a": none, "b": frozenset("xy"), "c": none}
    assert calls == [("a", none, True), ("b", none, True), ("c", none, True), ("b", frozenset("xy"), False)]


NAMES = st.sampled_from(["a", "b", "c", "A_b"])
COMPARISONS = st.one_of(
    st.builds("extra {} {!r}".format, st.sampled_from(["==", "!=", " == "]), NAMES),
    st.builds("{!r} {} extra".format, NAMES, st.sampled_from(["==", "!="])),
    st.sampled_from(["python_version > '3'", "sys_platform == 'win32'", "'extra' == extra"]),
)
MARKERS = st.recursive(
    COMPARISONS,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner),
    max_leaves=5,
)


@settings(max_examples=examples(100))
@given(MARKERS, st.frozensets(NAMES.map(canonical_name)))
def test_a_marker_holds_where_packaging_says_so_of_an_extra(marker: str, extras: frozenset[str]) -> None:
    markers = Markers("linux-64", "3.12.1")
    environment = marker_environment("linux-64", "3.12.1")
    packagings = [Marker(marker).evaluate({**environment, "extra": extra}) for extra in ("", *extras)]
    assert markers.hold(f"x; {marker}", extras) == any(packagings)
    # whatever may hold with more extras alone is found by them
    if any(packagings) and not packagings[0]:
        assert f"x; {marker}" in ByExtra([f"x; {marker}"]).lines(extras)


BY_EXTRA = {
    "==": "extra == 'e{0}'",
    "or in": "(extra == 'e{0}' or extra in 'e{0}')",
    "and <": "extra == 'e{0}' and extra < 'f{0}'",
    "and not in": "extra not in 'f{0}' and 'e{0}' == extra",
    "a string": "extra == 'e{0}' and os_name != \"extra == '{0}\"",
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("overridden", [False, True])
@pytest.mark.parametrize("form", BY_EXTRA)
def test_chained_extras_cost_what_they_weigh(monkeypatch: pytest.MonkeyPatch, form: str, overridden: bool) -> None:
    """Each extra leads to two others: judging all requirements for all extras cost the cube of their number."""
    judged = Counter[int]()
    evaluate = Marker.evaluate

    def counted(self: Marker, *arguments: object, **named: object) -> bool:
        judged[number] += 1
        return evaluate(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Marker, "evaluate", counted)
    overrides = Overrides(["beta==1"] if overridden else [])
    for number in (200, 2_000):
        lines = tuple(
            f"alpha[e{n + 1}-{number},e{n + 2}-{number}]; {BY_EXTRA[form].format(f'{n}-{number}')}"
            for n in range(number)
        )
        markers, by_extra = Markers("linux-64", "3.12.1"), ByExtra(lines)

        def following(name: str, added: frozenset[str], first: bool) -> Iterator[tuple[str, frozenset[str]]]:
            texts = lines if first else by_extra.lines(added)  # noqa: B023 - called in this round alone
            taken = (effective(line, added, markers, overrides) for line in texts)  # noqa: B023
            heads = (head_of(text) for requirements in taken for text, _ in requirements)
            return ((head.name, head.extras) for head in heads)

        assert len(reach([("alpha", frozenset([f"e0-{number}"]))], following)["alpha"]) == number + 2
    assert judged[2_000] <= 12 * judged[200]
