"""What people read before they begin stays short, and so do all pages together."""

from console_blocks import ROOT

from tools.weight import words

WORDS = 75_000
"""The limit of all pages, generated ones included. It may only fall."""
MOST = {
    "README.md": 1500,
    "SECURITY.md": 2200,
    "CONTRIBUTING.md": 1100,
    "docs/evidence.md": 2000,
    "docs/security.md": 3000,
}
"""The limits of pages that would grow by themselves. What doesn't fit README.md goes on a page of docs/."""


def test_the_pages_stay_within_their_words() -> None:
    pages = words(ROOT)
    assert sum(pages.values()) <= WORDS, sorted(pages.items(), key=lambda page: -page[1])
    assert [name for name, most in MOST.items() if pages[name] > most] == []


def test_the_readme_has_one_figure_for_light_and_dark() -> None:
    assert (ROOT / "README.md").read_text("utf-8").count("![") == 1
    assert "(prefers-color-scheme: dark)" in (ROOT / "docs" / "flow.svg").read_text("utf-8")
