"""A team's year, in halves: what a month costs in git, and that no merge is harder than plain git's or uv.lock's.
`python -m bench year` prints the figures of the whole year."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.index import Index
from year import EVENTS, Team, live, releases

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


@pytest.mark.parametrize("months", [range(6), range(6, 12)], ids=["first half", "second half"])
def test_a_year(months: range, tmp_path: Path) -> None:
    internal = Index()
    with releases(internal) as index:
        *_, figures = live(Team(tmp_path, index, internal), months)
    lines = {kind: count / figures.changed for kind, count in figures.lines.items()}
    assert lines["lock"] <= 6 and lines["rendered"] <= 10 and lines["recipes"] <= 4, lines
    # of the year's 36 reviews 11 are medium or high
    assert figures.risks.total() == 18 and figures.risks["low"] >= 12, figures.risks
    without_uv = {event.name for event in EVENTS if not event.uv}
    for way, merges in figures.merges.items():
        assert not merges.lost, (way, merges)
        # what one side deletes and the other changes is git's conflict, whatever a driver would make of it
        assert all("target" in name or "CUDA" in name for name in merges.others), (way, merges)
        assert merges.ours.keys() <= merges.plain.keys(), (way, merges)
        assert merges.ours.keys() - without_uv <= merges.uv.keys(), (way, merges)
