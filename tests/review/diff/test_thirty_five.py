"""The thirty-five changes of thirty_five/expected.toml: each one's first three lines have what matters, and the risk is
that of a careful reviewer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli
from lab import CHANGES, SPEC, Lab

from envspec.review.diff.judged import with_flaws, with_spec_changes
from envspec.review.diff.markdown import markdown
from envspec.review.diff.model import Side
from envspec.review.diff.of_specs import of_specs
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.spec.parse import parse_spec

pytestmark = pytest.mark.nightly

EXPECTED: Mapping[str, Mapping[str, Any]] = tomli.loads(
    (Path(__file__).parent / "thirty_five" / "expected.toml").read_text(encoding="utf-8")
)


def compared(old: Lab, new: Lab) -> Review:
    """The review as `envspec diff SPEC` makes it."""
    before, after = parse_spec(old.text, SPEC), parse_spec(new.text, SPEC)
    after_side = Side("new", new.lock())
    found = with_flaws(review(Side("old", old.lock()), after_side), after_side, after)
    return with_spec_changes(found, of_specs(before, after))


def head(text: str) -> str:
    """The heading and the first three lines below it, as a reader sees them."""
    heading, *lines = text.split("\n")
    told = [line for line in lines if line.startswith(("- ", "> ")) and "[!CAUTION]" not in line]
    return "\n".join([heading, *told[:3]])


def assert_told(name: str, found: Review) -> None:
    expected = EXPECTED[name]
    top = head(markdown(found))
    missing = [fact for fact in expected["top"] if fact.lower() not in plain(top).lower()]
    assert (found.risk, missing) == (expected["risk"], []), top


def plain(text: str) -> str:
    import html

    return html.unescape(text).replace("<code>", "").replace("</code>", "")


@pytest.mark.parametrize("name", CHANGES)
def test_a_pair_of_revisions(name: str) -> None:
    assert_told(name, compared(*CHANGES[name]()))
