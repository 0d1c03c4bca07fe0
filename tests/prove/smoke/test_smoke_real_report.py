"""What the real check writes, against its schema and its reader."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from support.documents import validator

import envspec.prove.smoke
from envspec.prove.smoke.report.junit import junit
from envspec.prove.smoke.report.page import page
from envspec.prove.smoke.report.read import load_report, report_json
from envspec.prove.smoke.report.result import Results, Run, SmokeReport

FOLDER = Path(envspec.prove.smoke.__file__).parent


def real(root: Path, tmp_path: Path, *words: str) -> tuple[SmokeReport, dict[str, Any], int]:
    """The report of the check under this Python, read and raw, and the exit code."""
    written = tmp_path / "check.json"
    config = root / "recipes" / "cpu-py311" / "cpu" / "target.json"
    check = str(root / "check")
    argv = [sys.executable, "-I", check, "--config", str(config), "--quick"]
    ran = subprocess.run(
        [*argv, "--json", str(written), *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode in (0, 1), ran.stderr
    return load_report(written), json.loads(written.read_text(encoding="utf-8")), ran.returncode


def agrees(found: SmokeReport, raw: dict[str, Any], code: int) -> None:
    check = validator(FOLDER / "check.schema.json")
    check.validate(raw)
    ours = json.loads(json.dumps(report_json(found)))
    check.validate(ours)
    counts = ("passed", "failed", "skipped", "gpu_skipped", "gpu_total")
    assert {key: ours["summary"][key] for key in counts} == {key: raw["summary"][key] for key in counts}
    assert ours["summary"]["headline"] == raw["summary"]["headline"]
    assert [figure["verdict"] for figure in ours["figures"]] == [figure["verdict"] for figure in raw["figures"]]
    assert found.verdict == raw["summary"]["verdict"]
    assert (code == 0) == (found.verdict == "pass")
    results = Results((Run.from_report(found.spec, found.target, "local", found),))
    assert found.headline in page(results)
    cases = list(ET.fromstring(junit(results).encode()).iter("testcase"))
    assert [case.get("name") for case in cases] == [check.name for check in found.checks]


@pytest.mark.slow
def test_the_wrong_environment(root: Path, tmp_path: Path) -> None:
    """This Python isn't the locked environment: the static checks say so."""
    found, raw, code = real(root, tmp_path, "--only", "static", "--device", "cpu")
    agrees(found, raw, code)
    assert found.verdict == "fail" and all(check.reason for check in found.checks if check.status == "fail")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="torch isn't in this environment")
def test_with_torch(root: Path, tmp_path: Path) -> None:
    found, raw, code = real(root, tmp_path, "--device", "cpu")
    agrees(found, raw, code)
    assert found.curves and found.figures and found.torch
