"""Curves and bars: every number has its place in the drawing, whatever it is."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given, strategies as st
from smoke_strategies import HOSTILE, figures

from envspec.prove.smoke.report import chart
from envspec.prove.smoke.report.result import Figure
from envspec.spec.model import Reference

numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(numbers, numbers)
@example(5e-324, 1e-323)
@example(-1.7e308, 1.7e308)
@example(0.0, 5e-324)
def test_ticks_cover_the_range(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = chart.ticks(low, high)
    assert 2 <= len(ticks) <= 12 and ticks == sorted(ticks)
    if high < 1e307 and low > -1e307:
        # within what no eye sees: floating point has its own idea of 0.1
        slack = 1e-9 * (high - low)
        assert ticks[0] <= low + slack and ticks[-1] >= high - slack


def test_ticks_are_round() -> None:
    assert chart.ticks(0.71, 2.32) == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert chart.ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert chart.ticks(2, 2)[0] < 2 < chart.ticks(2, 2)[-1]


@given(st.dictionaries(st.text(max_size=5), st.lists(st.none() | numbers, max_size=30).map(tuple), max_size=4))
@example({"a": (1.7e308, -1.7e308)})
@example({"a": (5e-324,), "b": (0.0,)})
def test_curves_stay_in_their_frame(of: dict[str, tuple[float | None, ...]]) -> None:
    text = chart.curves(of)
    if not any(value is not None for curve in of.values() for value in curve):
        assert text == ""
        return
    svg = ET.fromstring(text)
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    drawn = re.findall(r"(-?[\d.]+),(-?[\d.]+)", " ".join(line.attrib["points"] for line in svg.iter("polyline")))
    drawn += [(dot.attrib["cx"], dot.attrib["cy"]) for dot in svg.iter("circle")]
    assert drawn and all(-1 <= float(x) <= width + 1 and -1 <= float(y) <= height + 1 for x, y in drawn)
    assert "nan" not in text.replace("aria-label", "").lower().split(">", 1)[1]
    assert {"step", "loss"} <= {label.text for label in svg.iter("text")}, "the axes are labelled"


def test_a_hole_parts_a_curve_and_is_told() -> None:
    of = {"fp16": (3.0, 2.0, None, None, 1.0)}
    svg = ET.fromstring(chart.curves(of))
    assert len(list(svg.iter("polyline"))) == 1 and len(list(svg.iter("circle"))) == 1
    assert list(chart.curve_sentences(of)) == ["fp16: from 3 to 1 in 5 steps, no number at step 3 and 1 more"]
    assert "no number at step 3" in svg.attrib["aria-label"]
    assert list(chart.curve_sentences({"a": (None,), "b": ()})) == ["a: no number at step 1", "b: no step"]


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    of = {"a": tuple(float(step) for step in range(100_000))}
    svg = ET.fromstring(chart.curves(of))
    (line,) = svg.iter("polyline")
    points = line.attrib["points"].split()
    assert 200 < len(points) < 1000
    assert points[0].startswith("66.0,") and points[-1].startswith("406.0,")
    assert list(chart.curve_sentences(of)) == ["a: from 0 to 99,999 in 100000 steps"]


@given(figures)
@example(Figure("a", 0.0, "", Reference(1.7e308)))
def test_bars_stay_in_their_frame(figure: Figure) -> None:
    text = chart.bar(figure)
    if figure.verdict is None:
        assert text == ""
    elif text:
        svg = ET.fromstring(text)
        for box in svg.iter("rect"):
            assert float(box.attrib["width"]) >= 0 and float(box.attrib["x"]) + float(box.attrib["width"]) <= 160.05


def test_a_bar_says_what_it_shows() -> None:
    svg = ET.fromstring(chart.bar(Figure("a.b", 90.0, "s", Reference(100.0, -0.05))))
    assert svg.attrib["aria-label"] == "90 s: 10 % below 100 s (allowed: -5 %)"
    assert [box.attrib["class"] for box in svg.iter("rect")] == ["allowed", "value low"]


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_hostile_names_are_texts(name: str) -> None:
    svg = ET.fromstring(chart.curves({name: (1.0, 2.0)}))
    assert {element.tag for element in svg.iter()} == {"svg", "line", "text", "polyline"}
