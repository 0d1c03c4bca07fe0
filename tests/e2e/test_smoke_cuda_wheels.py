"""mm-v2.9 with its real CUDA wheels, on the CPU: several GB, so it's run by hand. `docs/evidence/` has a report of it.

Python is this machine's 3.11 instead of the spec's 3.12, so that an environment can be made where the tests run, and
setuptools is added, which torch 2.9 asks for from 3.12 on only and torch.compile imports on every CPU.

ENVSPEC_EVIDENCE=FILE keeps the report.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.smoke_runs import ENVSPEC, environment

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.huge, pytest.mark.e2e, pytest.mark.network]


def variant() -> str:
    """mm-v2.9 for Python 3.11, with one target."""
    text = (ROOT / "specs" / "mm-v2.9.toml").read_text("utf-8").replace('python = "3.12"', 'python = "3.11"')
    text = text.replace('  "jupyterlab",\n', '  "jupyterlab",\n  "setuptools",\n')
    targets = re.split(r"(?m)^(?=\[)", text)
    return "".join(part for part in targets if not part.startswith("[targets.") or "cu128-ampere" in part)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the environment is for Python 3.11")
def test_all_checks_that_need_no_gpu_pass(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mm-v2.9.toml").write_text(variant(), "utf-8")
    for arguments in (
        ["lock", "specs/mm-v2.9.toml"],
        ["install", "specs/mm-v2.9.toml", "--target", "cu128-ampere", "--prefix", "env"],
    ):
        subprocess.run([*ENVSPEC, *arguments], cwd=tmp_path, check=True, env=environment())
    kept = Path(os.environ.get("ENVSPEC_EVIDENCE", tmp_path / "report.json")).absolute()
    command = [str(tmp_path / "env" / "bin" / "python"), str(ROOT / "envspec" / "smoke" / "check.py")]
    command += ["--lock", "locks/mm-v2.9/envspec.lock", "--target", "cu128-ampere", "--workload", "multimodal"]
    ran = subprocess.run([*command, "--device", "cpu", "--json", str(kept)], cwd=tmp_path, check=False)
    report = json.loads(kept.read_text("utf-8"))
    assert report["summary"]["failed"] == 0 and ran.returncode == 0
    assert report["torch"]["version"] == "2.9.1+cu128" and report["torch"]["cuda"] == "12.8"
    assert report["summary"]["headline"].startswith("no GPU check ran: ")
