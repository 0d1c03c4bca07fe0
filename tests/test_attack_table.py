"""The table of attacks in docs/security.md counts the tests that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from support.machine import ROOT

_ROW = re.compile(r"\| \d+ \| [^|]+ \| `(tests/\S+\.py)`, (\d+) tests? \|$")


@pytest.mark.slow
def test_each_row_counts_the_tests_of_its_file() -> None:
    """A row has the attacks that it tells of, and the tests of its whole file, which may make several tries each."""
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ") and "`tests/" in line]
    rows = {path: int(tests) for path, tests in (_ROW.search(line).groups() for line in lines)}  # type: ignore[union-attr]
    assert len(rows) > 20
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", "", "-p", "no:cacheprovider", *rows]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # -v prints no counts
    said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    counted = Counter({path: int(count) for path, count in re.findall(r"^(tests/\S+\.py): (\d+)$", said, re.MULTILINE)})
    assert rows == counted
