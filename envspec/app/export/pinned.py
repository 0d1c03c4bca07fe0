"""The notes and refusals of `envspec export` for recipes that aren't pinned in every part."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from envspec.app.observer import say, warn
from envspec.base.errors import AnswerNo, Place

if TYPE_CHECKING:
    from envspec.export.plan import SpecPlan


def tell_missing_pins(
    path: str, plan: SpecPlan, targets: Collection[str], formats: Collection[str], *, required: bool
) -> None:
    """Say what the recipes of a spec's targets don't pin, a line each. Raises AnswerNo where they must."""
    from envspec.export.images import NO_SNAPSHOT, missing_pins

    found = missing_pins([of for of in plan.targets if of.target in targets], formats)
    if not found:
        return
    hints = [f"run `envspec lock {path} --upgrade-images` for digests"] if any("digest" in one for one in found) else []
    hints += ['add to [image] a day: snapshot = "2026-11-01"'] if NO_SNAPSHOT in found else []
    if required:
        raise AnswerNo(f"not all is pinned: {'; '.join(found)}", hint="; ".join(hints) or None, place=Place(path))
    for line in found:
        warn(f"{path}: not pinned: {line}")
    if hints:
        say(f"hint: {'; '.join(hints)}")
