"""mm-v2.9 from its own lock with its real CUDA wheels, on the CPU: several GB, so it's run by hand.

`docs/evidence/` has the report of a run. ENVSPEC_EVIDENCE=FILE keeps that of this one.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.smoke_runs import ENVSPEC, environment

from envspec.base.errors import ToolError
from envspec.install.interpreter import find_interpreter

ROOT = Path(__file__).resolve().parents[2]
TARGET = "cu128-ampere"

pytestmark = [pytest.mark.huge, pytest.mark.e2e, pytest.mark.network]


def test_all_checks_that_need_no_gpu_pass(tmp_path: Path) -> None:
    try:
        find_interpreter("3.12", os.environ)
    except ToolError as error:
        pytest.skip(str(error))
    command = [*ENVSPEC, "smoke", "specs/mm-v2.9.toml", "--target", TARGET, "--device", "cpu", "--json"]
    ran = subprocess.run(
        [*command, "-o", str(tmp_path / "out")],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )
    (run,) = json.loads(ran.stdout)["runs"]
    report = run["report"]
    if kept := os.environ.get("ENVSPEC_EVIDENCE"):
        Path(kept).write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    assert report["summary"]["failed"] == 0 and run["status"] == "pass" and ran.returncode == 0
    assert report["torch"]["version"].startswith("2.9.1") and report["torch"]["cuda"] == "12.8"
    assert report["summary"]["headline"].startswith("no GPU check ran: ")
