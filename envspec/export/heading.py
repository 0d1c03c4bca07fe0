"""The comment at the head of a recipe: its content, its lock, and its use."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envspec.export.plan import Plan, SpecPlan

MARK = "Exported by envspec. Not for editing: change the spec, then run `envspec export`."
"""The mark in the first lines of every recipe: envspec can replace such a file."""
HEAD = f"# {MARK}\n"
_OWNER = re.compile(
    r"(?:#!.*\n)?(?://|--|#) " + re.escape(MARK) + r"\n(?://|--|#) ([a-z0-9._-]+), targets? ([a-z0-9._-]+)"
)


def heading(plan: Plan | SpecPlan, usage: Iterable[str] = ()) -> list[str]:
    """Render the lines without comment signs. They are safe in any comment: names and versions, no user's text."""
    told = list(usage)
    return [MARK, _what(plan), *(["", *told] if told else [])]


def _what(plan: Plan | SpecPlan) -> str:
    if isinstance(plan, SpecPlan):
        return f"{plan.spec}, target{'s'[: len(plan.targets) - 1]} {', '.join(plan.names)}."
    cuda = f", CUDA {plan.cuda}" if plan.cuda else ""
    return f"{plan.spec}, target {plan.target}: Python {plan.python} on {plan.platform}{cuda}."


def owner(text: str) -> tuple[str, str] | None:
    """Read the spec and the (first) target of an exported recipe from its head. None without such a head."""
    found = _OWNER.match(text)
    return (found[1], found[2].rstrip(".")) if found else None


def hash_heading(plan: Plan | SpecPlan, usage: Iterable[str] = ()) -> list[str]:
    """Render the heading as `#` comments."""
    return [f"# {line}".rstrip() for line in heading(plan, usage)]
