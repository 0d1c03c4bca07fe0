"""Wrong arithmetic is told by a check: every operator and every gradient of the workloads' steps, and no sound run."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.smoke_env import CHECK

from mutants.summary import PAGE, RESULTS, rendered, share_of_survivors, summarised

MUTANTS = Path(__file__).with_name("arithmetic.py")


def ran(prefix: Path, folder: Path, *words: str, seconds: float) -> dict[str, Any]:
    out = folder / "mutants.json"
    command = [str(prefix / "bin/python"), str(MUTANTS), str(CHECK), str(out), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    assert done.returncode == 0, done.stderr
    return summarised([json.loads(out.read_text())])


def test_the_page_has_the_table_of_the_last_run() -> None:
    results, page = json.loads(RESULTS.read_text()), PAGE.read_text(encoding="utf-8")
    assert rendered(page, results) == page
    assert share_of_survivors(results) <= 0.03
    assert results["sound"]["alarms"] == 0 and results["sound"]["seeds"] >= 25


@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.nightly
def test_all_mutants_are_told_and_no_sound_run(smoke_env: Path, tmp_path: Path) -> None:
    found = ran(smoke_env, tmp_path, "--healthy", "25", seconds=3600)
    assert share_of_survivors(found) <= 0.03, found["survivors"]
    assert found["sound"]["alarms"] == 0
