"""What can't be right in the new lock of a comparison, as facts of a review. A review shows these and refuses
nothing."""

from __future__ import annotations

from envspec.diff.facts import Fact
from envspec.diff.side import Side
from envspec.lock.inputs import has_equal_inputs
from envspec.lock.judge import judge
from envspec.spec.model import Spec


def flaws_of(side: Side, spec: Spec | None) -> tuple[Fact, ...]:
    """Return the flaws of an envspec lock, judged by its spec where the spec is at hand and hasn't changed since. Files
    of other tools have none."""
    if side.format != "envspec" or not side.lock.targets:
        return ()
    by = spec if spec is not None and has_equal_inputs(spec, side.lock) else None
    every = {target.name for target in side.lock}
    return tuple(
        Fact("high", flaw.code, flaw.sentence, () if set(flaw.targets) == every else flaw.targets, flaw.package)
        for flaw in judge(side.lock, by)
    )
