"""What people read before they begin stays short, and so does all that is written by hand."""

import re
from collections.abc import Iterator
from pathlib import Path

from console_blocks import ROOT

from tools.reference.pages import PAGES

README = 1500
WORDS = 46_025
"""The words of README.md and docs/ but for docs/design and generated text. It may only fall."""

_MADE = "<!-- Made by "
_PART = re.compile(r"<!-- (made|mutants|proof|tests/facts).*?<!-- end.*?-->", re.DOTALL)


def written(page: Path) -> str:
    """Give a page's text without its generated parts; nothing of a page that a program writes whole."""
    text = page.read_text("utf-8")
    whole = page.relative_to(ROOT / "docs").as_posix() in PAGES if page.parent != ROOT else False
    return "" if whole or _MADE in text else _PART.sub("", text)


def pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    docs = ROOT / "docs"
    yield from sorted(page for page in docs.rglob("*.md") if docs / "design" not in page.parents)


def test_the_readme_is_read_in_a_few_minutes() -> None:
    """What doesn't fit goes on a page of docs/."""
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= README


def test_the_readme_has_one_figure_for_light_and_dark() -> None:
    assert (ROOT / "README.md").read_text("utf-8").count("![") == 1
    assert "(prefers-color-scheme: dark)" in (ROOT / "docs" / "flow.svg").read_text("utf-8")


def test_the_pages_stay_within_their_words() -> None:
    words = {page.relative_to(ROOT).as_posix(): len(written(page).split()) for page in pages()}
    assert sum(words.values()) <= WORDS, sorted(words.items(), key=lambda one: -one[1])
