"""docs/design/README.md: the pages on the design, one line each, and which page has the decision of an old number."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "design"
HEAD = """\
# Design

Why envspec is as it is: a page a noun, each with questions, answers, what was measured, and what was tried and left.
A page describes the code as it is now: whoever changes a decision edits its page, and git keeps what it said before.
A new page is `docs/design/NN-noun.md`, of which there are at most 40; then run `python -m tools.reference`.

| page | about |
|---|---|
"""
OLD = """
## Old numbers

Until November 2026 each decision was a page with a number of four digits. Each row has a hundred of them: old number,
colon, number of the page that has the decision now.

"""
PAGE = re.compile(r"# ([^\n]+)\n\n([^#|\n].+?)\n\n.+\nReplaces: ([\d,\s]+)\Z", re.DOTALL)
"""A page: a heading, a paragraph that says what it is about, and last the numbers of the decisions that it replaces."""


class DesignPage(NamedTuple):
    """A page of docs/design; `about` is its first paragraph, `old` has the numbers that it replaces."""

    name: str
    title: str
    about: str
    old: tuple[str, ...]


def pages() -> list[DesignPage]:
    """Read the pages in the order of their numbers. Raises ValueError for one that isn't built as the others are."""
    found = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        if (page := PAGE.match(path.read_text("utf-8"))) is None:
            raise ValueError(f"{path}: it begins with a heading and a paragraph, and ends with `Replaces: 0001, …`")
        title, about, old = page.groups()
        found.append(DesignPage(path.name, title, " ".join(about.split()), tuple(re.findall(r"\d+", old))))
    return found


def page() -> str:
    """Return the index's text."""
    listed = pages()
    rows = [f"| [{each.name[:2]} {each.title}]({each.name}) | {each.about} |\n" for each in listed]
    page_of = {number: each.name[:2] for each in listed for number in each.old}
    numbers = groupby(sorted(page_of), key=lambda old: old[:2])
    hundreds = [
        f"- {hundred}…: {', '.join(f'{old[2:]}:{page_of[old]}' for old in group)}\n" for hundred, group in numbers
    ]
    return HEAD + "".join(rows) + OLD + "".join(hundreds)
