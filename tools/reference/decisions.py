"""docs/decisions/README.md: the decisions by area, one line each, from the pages themselves."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "decisions"
HEAD = """\
# Decisions

Why envspec stands on these libraries, and what else was decided: one page each, by area. Versions and dates are as
of November 2026. A page that a later one narrows or supersedes says so, here and in its own status.

To add one, write `docs/decisions/NNNN-title.md` with the next free number, in the form of the others (heading, area,
status, text), set the status of the page that it overrules, and run `python -m tools.reference`.
"""
PAGE = re.compile(r"# (?P<title>.+)\n\n- Area: (?P<area>.+)\n- Status: (?P<status>.+)\n\n(?=\S)")
"""How a page begins."""
STATUS = re.compile(r"in force|(?:narrowed|superseded) by \[(\d{4})\]\((\1-[a-z0-9-]+\.md)\)")


class Decision(NamedTuple):
    """A page of docs/decisions, without its text."""

    name: str
    title: str
    area: str
    status: str


def decisions() -> list[Decision]:
    """Read the pages in the order of their numbers. Raises ValueError for one whose beginning isn't as the others'."""
    found = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        begins = PAGE.match(path.read_text("utf-8"))
        if begins is None or not STATUS.fullmatch(begins["status"]):
            raise ValueError(
                f"{path}: it begins with a heading, then `- Area: …` and `- Status: …`, as its neighbours do"
            )
        found.append(Decision(path.name, *begins.group("title", "area", "status")))
    return found


def page() -> str:
    """Return the index's text."""
    areas = defaultdict(list)
    for one in decisions():
        told = "" if one.status == "in force" else f" ({one.status})"
        areas[one.area].append(f"- [{one.name[:4]}]({one.name}) {one.title}{told}\n")
    return HEAD + "".join(f"\n## {area}\n\n{''.join(lines)}" for area, lines in areas.items())
