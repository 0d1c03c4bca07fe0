"""SECURITY.md and docs/security.md name the tests that prove what they say: each is there, and each number is true."""

import re
import sys

import pytest
from support.machine import ROOT

_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_PAGES = {page: (ROOT / page).read_text(encoding="utf-8") for page in ("SECURITY.md", "docs/security.md")}


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the table that begins with this head."""
    table = text.partition(f"| {first} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("page", _PAGES)
def test_each_test_that_is_named_is_there(page: str) -> None:
    named = _NAMED.findall(_PAGES[page])
    assert len(named) > 5
    for path, name in named:
        assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{page}: {path}::{name}"


def test_each_line_of_the_model_has_its_proof_or_says_that_nothing_stops_it() -> None:
    lines = [line for line in _PAGES["SECURITY.md"].splitlines() if line.startswith("| ")]
    model = lines[2:]
    assert len(model) > 30 and lines[0] == "| who | does | what stops it | shown by |"
    unproved = [line for line in model if not _NAMED.search(line) and "**nothing**" not in line]
    assert not unproved


_NO_PROMISE = (
    "Every parser", "- what", "`tests/fuzz` mutates", "[CONTRIBUTING.md]",  # what was done
    "Outside input has limits", "These aren't covered", "- ",
)  # fmt: skip
"""How paragraphs begin that promise nothing: what is fuzzed and was found, and what isn't covered."""


@pytest.mark.parametrize(("section", "least"), [("Fuzzing", 3), ("Secrets", 8), ("Limits", 10)])
def test_each_promise_has_its_test_beside_it(section: str, least: int) -> None:
    text = _PAGES["docs/security.md"].partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    promised = rows(text, "promise | shown by")
    assert len(promised) >= least and [said for said, *shown in promised if not _NAMED.search(" ".join(shown))] == []
    prose = [one for one in map(str.strip, text.split("\n\n")) if one and not one.startswith("|")]
    assert [one for one in prose if not one.startswith(_NO_PROMISE)] == [], "a promise stands in a table"


def test_the_numbers_of_forged_and_honest_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("forged", "review/diff", "hostile"):
        monkeypatch.syspath_prepend(str(ROOT / "tests" / folder))
    before = set(sys.modules)
    import forging
    import test_forged
    import test_forged_signatures
    import test_forgeries
    import test_real_pairs

    try:
        table = rows(_PAGES["docs/security.md"], "locks")
        tried = {_NAMED.search(row[3])[2]: int(row[1]) for row in table}  # type: ignore[index]
        assert tried == {
            "test_judged": len(forging.forgeries("check")),
            "test_check_takes_it_and_verify_refuses": len(forging.forgeries("verify")),
            "test_a_forged_lock_is_of_high_risk": len(test_forgeries.FORGERIES),
            "test_who_asks_for_a_signature_refuses": len(test_forged_signatures.REFUSED),
            "test_no_false_alarm": len(test_forged.SHIPPED),
            "test_an_honest_relock_raises_no_high": len(test_real_pairs.RELOCKS),
            "test_an_honest_lock": 1,
        }
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("test_"):
                del sys.modules[name]
