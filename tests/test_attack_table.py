"""The table of attacks in docs/security.md has every file of tests/hostile, and counts its tests. None loses."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from support.machine import ROOT

_ROW = re.compile(r"^\| .+ \| (\d+) \| `(tests/\S+\.py)` \|$", re.MULTILINE)
_TABLE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("\n## ")[0]
_ROWS = {path: int(tests) for tests, path in _ROW.findall(_TABLE)}


def test_every_attack_has_its_row() -> None:
    assert len(_ROWS) == _TABLE.count("`tests/")
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "hostile").glob("test_*.py")}
    assert sorted(files - set(_ROWS)) == []


@pytest.mark.slow
def test_each_row_counts_the_tests_of_its_file() -> None:
    """And none is known to lose, which an xfail would be."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-m", "", "-p", "no:cacheprovider", *_ROWS]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}  # -v prints no counts
    said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    counted = Counter({path: int(count) for path, count in re.findall(r"^(tests/\S+\.py): (\d+)$", said, re.MULTILINE)})
    assert {path: counted[path] for path in _ROWS} == _ROWS
    assert [path for path in _ROWS if "mark.xfail" in (ROOT / path).read_text(encoding="utf-8")] == []
