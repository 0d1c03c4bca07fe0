"""The faults of the new lock in a comparison, as facts of a review. A review shows them and refuses nothing."""

from __future__ import annotations

from dataclasses import replace

from envspec.lock.inputs import spec_case
from envspec.lock.judge import flaws_of as _judged, judge
from envspec.review.diff.facts import Fact, highest
from envspec.review.diff.rows import Review, in_order
from envspec.review.diff.side import Side
from envspec.spec.model import Spec


def with_flaws(review: Review, side: Side, spec: Spec | None) -> Review:
    """Add the flaws of the new side to a review. A package with a flaw has the flaw's risk."""
    return add_flaws(review, flaws_of(side, spec))


def add_flaws(review: Review, flaws: tuple[Fact, ...]) -> Review:
    """Add flaws to those of a review."""
    if not flaws:
        return review
    named = {flaw.package: flaw.risk for flaw in flaws}
    rows = (replace(row, risk=highest((row.risk, named.get(row.name, "low")))) for row in review.rows)
    return replace(review, flaws=(*review.flaws, *flaws), rows=in_order(rows))


def flaws_of(side: Side, spec: Spec | None) -> tuple[Fact, ...]:
    """Return the flaws of an envspec lock, judged by its spec where the spec is at hand and hasn't changed since. Files
    of other tools have none."""
    if side.format != "envspec" or not side.lock.targets:
        return ()
    found = judge(side.lock) if spec is None else _judged(side.lock, spec_case(spec))
    every = {target.name for target in side.lock}
    return tuple(
        Fact("high", flaw.code, flaw.message, () if set(flaw.targets) == every else flaw.targets, flaw.package)
        for flaw in found
    )
