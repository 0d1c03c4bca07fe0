"""docs/diff.md rates each code as the sources do."""

import re
from pathlib import Path

from envspec.base.codes import meanings

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "diff.md").read_text(encoding="utf-8")
RISKS = ("high", "medium", "low")


def rows() -> list[list[str]]:
    """The cells of the page's tables."""
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in PAGE.splitlines() if line.startswith("|")]


def rated() -> dict[str, set[str]]:
    """The risks of each code: those of one risk, and those that the circumstances decide."""
    found: dict[str, set[str]] = {}
    for first, *cells in rows():
        if first in RISKS and len(cells) == 1:
            found |= {code: {first} for code in re.findall(r"`([a-z-]+)`", cells[0])}
        elif len(cells) == len(RISKS):
            risks = {risk for risk, cell in zip(RISKS, cells, strict=True) if cell}
            found |= dict.fromkeys(re.findall(r"`([a-z-]+)`", first), risks)
    return found


def test_each_risk_of_the_sources_is_the_pages() -> None:
    page = rated()
    given = {
        (code, risk)
        for path in (ROOT / "envspec" / "review" / "diff").rglob("*.py")
        for risk, code in re.findall(r'Fact\(\s*"(high|medium|low)",\s*"([a-z-]+)"', path.read_text("utf-8"))
    }
    assert len(given) > 60
    assert sorted((code, risk) for code, risk in given if risk not in page.get(code, {"low"})) == []


def test_the_page_rates_no_other() -> None:
    assert sorted(rated().keys() - meanings().keys()) == []
