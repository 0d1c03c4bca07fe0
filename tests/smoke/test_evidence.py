"""The reports that are kept as evidence: whole, readable, and told as what they are."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import envspec.smoke
from envspec.smoke.report.read import load_report

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "evidence"
SCHEMA = json.loads((Path(envspec.smoke.__file__).parent / "check.schema.json").read_text("utf-8"))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_a_kept_report_passed(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_text("utf-8")), SCHEMA)
    report = load_report(path)
    assert report.verdict == "pass" and report.complete
    row = next(line for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if path.name in line)
    assert report.headline.partition(" (")[0] in row
    assert report.device == "cuda" or "no GPU" in row
