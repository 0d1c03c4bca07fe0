"""docs/design/README.md: the pages on the design, each with its first sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import tomli

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "design"
NUMBERS = FOLDER / "old-numbers.toml"
HEAD = """\
# Design

Why envspec is as it is: a page a noun, each with questions, answers, what was measured, and what was tried and left.
A page describes the code as it is now: whoever changes a decision edits its page, and git keeps what it said before.
A new page is `docs/design/NN-noun.md`, of which there are at most 40; then run `python -m tools.reference`.
[old-numbers.toml](old-numbers.toml) has the page of each decision that had a number of four digits.

| page | about |
|---|---|
"""
PAGE = re.compile(r"# ([^\n]+)\n\n([^#|\n].+?)\n\n", re.DOTALL)
"""How a page begins: a heading, and a paragraph with its subject."""


class DesignPage(NamedTuple):
    """A page of docs/design; `about` is its first paragraph, `old` has the numbers that it replaces."""

    name: str
    title: str
    about: str
    old: tuple[str, ...]


def pages() -> list[DesignPage]:
    """Read the pages in the order of their numbers. Raises ValueError for one that isn't built as the others are."""
    replaced = tomli.loads(NUMBERS.read_text("utf-8"))
    pages = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        if (page := PAGE.match(path.read_text("utf-8"))) is None:
            raise ValueError(f"{path}: it begins with a heading and a paragraph")
        title, about = page.groups()
        pages.append(DesignPage(path.name, title, " ".join(about.split()), tuple(replaced.get(path.name[:2], ()))))
    return pages


def page() -> str:
    """Return the index's text."""
    rows = [
        f"| [{each.name[:2]} {each.title}]({each.name}) | {each.about.partition('. ')[0].removesuffix('.')} |\n"
        for each in pages()
    ]
    return HEAD + "".join(rows)
