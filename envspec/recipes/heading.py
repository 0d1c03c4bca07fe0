"""The comment at the head of a recipe: what it is, of which lock, and how to use it."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.recipes.plan import Plan

MARK = "Exported by envspec. Not for editing: change the spec, then run `envspec export`."
"""Stands in the first lines of every recipe: such a file is envspec's to replace."""


def heading(plan: Plan, usage: Iterable[str] = ()) -> list[str]:
    """The lines without comment signs. All of it is safe in any comment: names and versions, no text of the user's."""
    cuda = f", CUDA {plan.cuda}" if plan.cuda else ""
    told = list(usage)
    return [
        MARK,
        f"{plan.spec}, target {plan.target}: Python {plan.python} on {plan.platform}{cuda}.",
        *(["", *told] if told else []),
    ]


def hash_heading(plan: Plan, usage: Iterable[str] = ()) -> list[str]:
    """The heading as `#` comments."""
    return [f"# {line}".rstrip() for line in heading(plan, usage)]
