"""Every test that leaves cases to `.ci/run` is there."""

from __future__ import annotations

import re
from pathlib import Path

from support.by_day import CASES

TESTS = Path(__file__).parent


def test_each_has_its_test() -> None:
    missing = [
        name
        for name in CASES
        for file, test in [name.split("::")]
        if not re.search(rf"^def {test}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
