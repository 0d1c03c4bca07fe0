"""The pages of docs/design: few, short, built alike, and each old decision is in one of them."""

import re
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tools.reference.design import FOLDER, DesignPage, pages

MOST, WORDS = 40, 900
ROOT = FOLDER.parents[1]
POINTER = re.compile(r"(?<![\w/])(docs/[a-z0-9/-]+\.md|\bDESIGN\b|\bdecisions/\S*)(?:#([\w-]+))?")
"""A page of ours, with its heading, or a page that is gone."""
MODULE = re.compile(r"`((?:envspec|tools|bench)(?:\.[a-z_0-9]+)+)(?:\.[A-Za-z_]+)?`")
NAMES = {"envspec.cli.x_y"}
"""Names of no module, by which docstrings say how modules are called."""
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


def sources(*folders: str) -> list[tuple[str, str]]:
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    return [(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in paths]


def test_each_pointer_in_code_leads_to_a_page() -> None:
    named = {(path, *page) for path, text in sources("envspec", "tools", "check") for page in POINTER.findall(text)}
    assert len(named) > 40
    assert sorted(one for one in named if not leads_somewhere(f"../../{one[1]}", one[2])) == []


def test_each_pointer_in_tests_leads_to_a_page_of_the_design() -> None:
    """Tests name other pages too, of repositories that they make."""
    named = {(path, *page) for path, text in sources("tests", "bench") for page in POINTER.findall(text)}
    ours = {one for one in named if not one[1].startswith("docs/") or one[1].startswith("docs/design/")}
    assert sorted(one for one in ours if not leads_somewhere(f"../../{one[1]}", one[2])) == []


def test_each_module_that_a_docstring_names_is_there() -> None:
    named = {(path, name) for path, text in sources("envspec", "tools", "bench") for name in MODULE.findall(text)}
    assert len(named) > 20
    assert sorted(one for one in named if one[1] not in NAMES and not is_module(one[1])) == []


def is_module(name: str) -> bool:
    """Return whether a dotted name is one of a module, of a package, or of a value in one."""
    path = ROOT.joinpath(*name.split("."))
    above = path.parent.with_suffix(".py")
    held = above.read_text("utf-8") if above.is_file() else ""
    return path.is_dir() or path.with_suffix(".py").is_file() or re.search(rf"\b{path.name}\b", held) is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see docs/design/02-code.md#how", [("docs/design/02-code.md", "how")]),
        ("the table of DESIGN §3", [("DESIGN", "")]),
        ("at example.org/docs/a.md", []),
    ],
)
def test_pointers_are_seen_with_their_headings(text: str, found: list[tuple[str, str]]) -> None:
    assert POINTER.findall(text) == found
    assert not any(leads_somewhere(f"../../{path}", anchor) for path, anchor in found)


def test_there_are_few_pages() -> None:
    """A new noun takes the place of one, or is a section."""
    assert len(PAGES) <= MOST
    assert [name for name, count in Counter(page.name[:2] for page in PAGES).items() if count > 1] == []
    assert [title for title, count in Counter(page.title for page in PAGES).items() if count > 1] == []


def test_each_old_decision_is_in_one_page() -> None:
    old = Counter(chain.from_iterable(page.old for page in PAGES))
    assert [number for number, count in old.items() if count > 1] == []
    assert sorted(old) == [f"{number:04}" for number in range(1, 486) if number not in NEVER]
