"""What people read before they begin stays short."""

from console_blocks import ROOT

WORDS = 1500


def test_the_readme_is_read_in_a_few_minutes() -> None:
    """What doesn't fit goes on a page of docs/."""
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= WORDS


def test_the_readme_has_one_figure_for_light_and_dark() -> None:
    assert (ROOT / "README.md").read_text("utf-8").count("![") == 1
    assert "(prefers-color-scheme: dark)" in (ROOT / "docs" / "flow.svg").read_text("utf-8")
