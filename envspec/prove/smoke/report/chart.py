"""Drawings for the page, as inline SVG: loss curves with their axes, and a figure's bar against its reference.

The colours come from the page's style. A label says in words what a drawing shows: colour alone carries no meaning.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from envspec.prove.smoke.report import words
from envspec.prove.smoke.report.result import Figure

Curve = Sequence[float | None]

LINES = 6
"""The number of line kinds in the style; a chart with more curves repeats them."""

_POINTS = 400
_HUGE = sys.float_info.max
_WIDTH, _HEIGHT = 420, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 10, 44


def curves(of: Mapping[str, Curve]) -> str:
    """Draw the loss curves of one chart, by name: `<svg>` and nothing else. Empty without a number to draw."""
    numbers = [value for curve in of.values() for value in curve if value is not None]
    steps = max((len(curve) for curve in of.values()), default=0)
    if not numbers:
        return ""
    y_ticks = ticks(min(numbers), max(numbers))
    low, high = min(y_ticks[0], min(numbers)), max(y_ticks[-1], max(numbers))
    x_ticks = [tick for tick in ticks(1, max(steps, 2)) if tick == int(tick) and 1 <= tick <= steps]

    def x(step: float) -> float:
        return _LEFT + (step - 1) / max(steps - 1, 1) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        # halves: the difference of two huge numbers may be no number
        return _TOP + (high / 2 - value / 2) / (high / 2 - low / 2) * (_HEIGHT - _TOP - _BOTTOM)

    label = "Loss by step. " + " ".join(f"{line}." for line in curve_sentences(of))
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">']
    for value in y_ticks:
        at = y(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{at:.1f}" x2="{_WIDTH - _RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{words.number(value)}</text>')
    base = _HEIGHT - _BOTTOM
    parts.append(f'<line class="axis" x1="{_LEFT}" y1="{base}" x2="{_WIDTH - _RIGHT}" y2="{base}"/>')
    for step in dict.fromkeys([1, *x_ticks]):
        parts.append(f'<text x="{x(step):.1f}" y="{base + 16}" text-anchor="middle">{int(step)}</text>')
    middle = (_TOP + base) / 2
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">step</text>')
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">loss</text>')
    for index, curve in enumerate(of.values()):
        for run in _pieces(curve):
            points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in run)
            if len(run) > 1:
                parts.append(f'<polyline class="line l{index % LINES}" points="{points}"/>')
            else:
                at_x, at_y = points.split(",")
                parts.append(f'<circle class="dot l{index % LINES}" cx="{at_x}" cy="{at_y}" r="2.5"/>')
    parts.append("</svg>")
    return "".join(parts)


def curve_sentences(of: Mapping[str, Curve]) -> Iterator[str]:
    """Describe each curve: "fp32: from 2.3 to 0.41 in 50 steps", and the steps without a number."""
    for name, curve in of.items():
        numbers = [value for value in curve if value is not None]
        holes = [step for step, value in enumerate(curve, 1) if value is None]
        line = f"{words.clean(name)}: "
        if numbers:
            line += (
                f"from {words.number(numbers[0])} to {words.number(numbers[-1])} in {words.plural(len(curve), 'step')}"
            )
        if holes:
            first = f"{', ' if numbers else ''}no number at step {holes[0]}"
            line += first + (f" and {len(holes) - 1} more" if len(holes) > 1 else "")
        yield line if curve else f"{line}no step"


def bar(figure: Figure) -> str:
    """Draw a figure's value as a bar from 0, with the allowed range behind it and the reference as a stroke. Empty
    without a reference.
    """
    reference = figure.reference
    if reference is None or figure.value is None or not figure.comparable or min(figure.value, reference.value) < 0:
        return ""
    least, greatest = figure.bounds
    most = max(figure.value, reference.value, least or 0, min(greatest or 0, 2 * reference.value)) * 1.05
    # nothing to divide by, or too much
    if not most or math.isinf(most):
        return ""

    def x(value: float) -> str:
        return f"{min(max(value / most, 0), 1) * 160:.1f}"

    start, end = least or 0, greatest if greatest is not None else most
    label = f"{words.measurement(figure)}: {words.reference_words(figure)}"
    return (
        f'<svg class="bar" viewBox="0 0 160 16" role="img" aria-label="{escape(label)}">'
        f'<rect class="allowed" x="{x(start)}" y="0" width="{float(x(end)) - float(x(start)):.1f}" height="16"/>'
        f'<rect class="value {figure.verdict}" x="0" y="4" width="{x(figure.value)}" height="8"/>'
        f'<line class="mark" x1="{x(reference.value)}" y1="0" x2="{x(reference.value)}" y2="16"/></svg>'
    )


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Choose round numbers that cover a range, at least two."""
    if not high / 2 - low / 2 > max(1e-12 * max(abs(low), abs(high)), 1e-200):
        # all the same: a line in the middle
        spread = max(abs(low) * 0.1, 1e-12) if low else 1.0
        low, high = max(low - spread, -_HUGE), min(high + spread, _HUGE)
    # parts first: the difference of two huge numbers may be no number
    raw = high / about - low / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((power * factor for factor in (1, 2, 5) if power * factor >= raw), power * 10)
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return [value for value in (index * step for index in range(first, last + 1)) if math.isfinite(value)]


def _pieces(curve: Curve) -> Iterator[list[tuple[int, float]]]:
    """Split a curve at missing numbers, each part as steps and values, thinned to the points that a screen can show."""
    every = max(1, math.ceil(len(curve) / _POINTS))
    piece: list[tuple[int, float]] = []
    for step, value in enumerate(curve, 1):
        if value is None:
            if piece:
                yield piece
            piece = []
        elif not piece or step % every == 0 or step == len(curve):
            piece.append((step, value))
    if piece:
        yield piece
