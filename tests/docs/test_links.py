"""Every link of a page leads to a file of the repository, and to one of its headings, by the rules of GitHub."""

import re
from pathlib import Path

import pytest

from tools.weight import PAGES, files_of

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """The fragments that GitHub gives to a page's headings."""
    text = FENCED.sub("", page.read_text("utf-8"))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


@pytest.mark.parametrize("page", list(files_of(ROOT, *PAGES)), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = LINK.findall(FENCED.sub("", page.read_text("utf-8")))
    targets = [(page.parent / path if path else page, path, anchor) for path, anchor in links]
    assert [path for target, path, _ in targets if not target.exists()] == []
    wrong = [
        f"{path}#{at}" for target, path, at in targets if at and target.suffix == ".md" if at not in anchors_of(target)
    ]
    assert wrong == []
