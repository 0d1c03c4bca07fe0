"""The page of a review in a real browser: what has the longest words runs out of no narrow screen."""

from pathlib import Path

import pytest
from lab import HOPPER_126, Lab, wheel, with_target
from msgspec.structs import replace
from support.browser import Browser

from envspec.lock.formats.foreign.side import Side
from envspec.review.diff.documents import html
from envspec.review.diff.judged import with_spec_changes
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Review

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

LONG = "https://packages.example.org/" + "a-very-long-path/" * 8 + "simple"
FORGED = Fact(
    "high",
    "other-hash",
    f"NOT WHAT ITS INDEX PUBLISHES: tqdm 4.67.1: the sha256 is {'0' * 64} at its index, and {'f' * 64} in the lock",
    (),
    "tqdm",
)


def page() -> Review:
    """A forged file with whole hashes, a long address, CUDA that goes down, and dates."""
    old = Lab()
    new = with_target(old, hopper=HOPPER_126).bump(wheel("tqdm", "4.67.1", content="another"))
    found = review(Side("old", old.lock()), Side("new", new.lock()))
    moved = Fact("high", "index-address-changed", f"the index internal is at another address: {LONG} -> {LONG}/b")
    dates = Fact("low", "exclude-newer-changed", "exclude-newer 2025-10-01T00:00:00Z -> 2025-11-01T00:00:00Z")
    return replace(with_spec_changes(found, (moved, dates)), flaws=(FORGED,))


@pytest.mark.parametrize("width", [360, 390, 1440])
def test_it_fits_its_width(width: int, tmp_path: Path) -> None:
    script = (
        "const wide = [...document.querySelectorAll('body *')].filter(one =>"
        " one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 120));"
        "return [document.documentElement.scrollWidth - innerWidth, wide]"
    )
    assert Browser(tmp_path).ask(html(page()), script, width=width) == [0, []]


def test_an_arrow_is_never_broken(tmp_path: Path) -> None:
    """Each `->` of a text is on one line, however narrow it is."""
    script = """
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), broken = [];
      for (let node; (node = walker.nextNode());)
        for (let at = -1; (at = node.data.indexOf('->', at + 1)) >= 0;) {
          const range = document.createRange();
          range.setStart(node, at); range.setEnd(node, at + 2);
          if (new Set([...range.getClientRects()].map(one => one.top)).size > 1) broken.push(node.data)
        }
      return broken"""
    assert Browser(tmp_path).ask(html(page()), script, width=390) == []
