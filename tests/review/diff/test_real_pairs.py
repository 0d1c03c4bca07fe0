"""Real history: locks of the same spec, months apart, and what the review says of it, to the letter."""

import gzip
import json
import os
from pathlib import Path

import pytest
import tomli
from support.applied import apply

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock
from envspec.lock.read import loads
from envspec.review.diff.documents import as_json
from envspec.review.diff.markdown import markdown
from envspec.review.diff.review import diff, review
from envspec.review.diff.rows import Review
from envspec.review.diff.text import text

REAL = Path(__file__).parent / "real"
RELOCKS = tomli.loads((REAL / "relocks.toml").read_text("utf-8"))
PAIRS = (*RELOCKS, "torch-bump")


def lock(pair: str, side: str) -> Lock:
    file = REAL / f"{pair}.{side}.lock.gz"
    return loads(gzip.decompress(file.read_bytes()).decode(), file.name)


def of(pair: str) -> Review:
    return review(Side("old", lock(pair, "old")), Side("new", lock(pair, "new")))


def shown(found: Review, form: str) -> str:
    if form == "json":
        return json.dumps(as_json(found), indent=1, ensure_ascii=False) + "\n"
    return text(found) if form == "txt" else markdown(found)


@pytest.mark.parametrize(
    ("pair", "form"), [*((pair, form) for pair in PAIRS for form in ("txt", "md")), ("torch-bump", "json")]
)
def test_golden(pair: str, form: str) -> None:
    golden = REAL / f"{pair}.{form}"
    found = shown(of(pair), form)
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == found


@pytest.mark.parametrize("pair", PAIRS)
def test_applies(pair: str) -> None:
    old, new = lock(pair, "old"), lock(pair, "new")
    assert apply(diff(old, new), old) == new


@pytest.mark.parametrize("pair", RELOCKS)
def test_an_honest_relock_raises_no_high(pair: str) -> None:
    """Months of releases, none of them out of the ordinary: whatever is high here would be high every week."""
    found = of(pair)
    assert len(found.rows) == RELOCKS[pair]["changed"]
    assert (found.risk, found.shouted) == (RELOCKS[pair]["risk"], ())
    assert not any(row.risk == "high" for row in found.rows)
