"""The pages of docs/design: few, short, built alike, and each old decision is in one of them."""

import re
from collections import Counter
from itertools import chain

import pytest

from tools.reference.design import FOLDER, DesignPage, pages

MOST, WORDS = 40, 900
ROOT = FOLDER.parents[1]
POINTER = re.compile(r"(?<![\w/])docs/[a-z0-9/-]+\.md|\bDESIGN\b|\bdecisions/\S*")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)#?([^)]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
NEVER = {
    *(27, 139, 140, 256, 352, *range(363, 373), *range(377, 381), 386, 390, 392, 409, 412, 413, 414, 416, 418, 421),
    *(425, 438, 440, 446, 448, 450, 457, 458, 459, 462, 463, 467, 474, 477, 483),
}
"""Numbers up to the last one that no decision had, or that had gone before."""

PAGES = pages()


def leads_somewhere(path: str, anchor: str) -> bool:
    """Return whether a page's link leads to a file and, by the rules of GitHub, to one of its headings."""
    page = FOLDER / path
    headings = HEADING.findall(page.read_text("utf-8")) if page.is_file() and anchor else ()
    return page.exists() and (
        not anchor or anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_read_in_minutes_and_keeps_what_was_tried(page: DesignPage) -> None:
    text = (FOLDER / page.name).read_text("utf-8")
    assert len(text.split()) < WORDS
    assert "\n## Tried and left\n" in text or "Nothing was tried and left." in text
    assert [link for link in LINK.findall(text) if not leads_somewhere(*link)] == []


def test_each_pointer_in_code_leads_to_a_page() -> None:
    files = [path for folder in ("envspec", "tools", "check") for path in (ROOT / folder).rglob("*.py")]
    named = {(path, page) for path in files for page in POINTER.findall(path.read_text("utf-8"))}
    assert len(named) > 40
    assert sorted((path.name, page) for path, page in named if not (ROOT / page).exists()) == []


def test_there_are_few_pages() -> None:
    """A new noun takes the place of one, or is a section."""
    assert len(PAGES) <= MOST
    assert [name for name, count in Counter(page.name[:2] for page in PAGES).items() if count > 1] == []
    assert [title for title, count in Counter(page.title for page in PAGES).items() if count > 1] == []


def test_each_old_decision_is_in_one_page() -> None:
    old = Counter(chain.from_iterable(page.old for page in PAGES))
    assert [number for number, count in old.items() if count > 1] == []
    assert sorted(old) == [f"{number:04}" for number in range(1, 486) if number not in NEVER]
