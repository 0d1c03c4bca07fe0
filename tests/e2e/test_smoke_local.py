"""`cpu-py311`, made from its lock, under the local runner: every one of the real checks.

The run is the one that test_shipped.py asks for too.
"""

import json
import sys
from pathlib import Path

import pytest
from support.smoke_runs import SPEC, skip_without_torch, whole_run

from envspec.pytest_plugin import cases

pytestmark = [pytest.mark.nightly, pytest.mark.e2e, pytest.mark.network]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11")
def test_all_checks_pass(tmp_path_factory: pytest.TempPathFactory) -> None:
    (case,) = cases([Path(SPEC)])
    status, out, _ = whole_run(tmp_path_factory)([case.path, "--target", case.target, "--json"])
    skip_without_torch(out)
    (run,) = json.loads(out)["runs"]
    assert run["status"] == "pass", out
    statuses = {check["name"]: check["status"] for check in run["report"]["checks"]}
    assert "fail" not in statuses.values()
    # what needs no GPU isn't skipped, but for what a CPU build has not, and what another workload trains
    groups = {name.partition(".")[0] for name, status in statuses.items() if status == "pass"}
    assert {"static", "operators", "training", "determinism", "compile", "dataloader", "collectives"} <= groups
    assert status == 0
