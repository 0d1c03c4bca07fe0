"""Files with a solution for each platform: their packages as a lock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from envspec.lock.model import Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.review.diff.side import version_text


def lock_of(targets: Mapping[tuple[str, str], Iterable[Pin]], name: str = "") -> Lock:
    """Make a lock with a target for each (name, platform). Every package counts as direct: these files don't say."""
    found = [_target(target, platform, list(pins)) for (target, platform), pins in sorted(targets.items())]
    return Lock(name, SpecInputs(), tuple(found))


def _target(name: str, platform: str, pins: list[Pin]) -> LockedTarget:
    python = next((version_text(pin) for pin in pins if pin.kind == "conda" and pin.name == "python"), "")
    minor = re.match(r"\d+\.\d+", python)
    inputs = TargetInputs(
        platform,
        minor[0] if minor else "3.12",
        None,
        requirements=tuple(sorted(pin.name for pin in pins if pin.kind == "pip")),
        conda_requirements=tuple(sorted(pin.name for pin in pins if pin.kind == "conda")),
    )
    return LockedTarget(name, inputs, tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name))))
