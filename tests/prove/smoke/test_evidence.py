"""The reports that are kept as evidence: whole, readable, and told as what they are."""

import json
from pathlib import Path

import pytest
from support.documents import validator
from support.machine import ROOT

import envspec.prove.smoke
from envspec.app.evidence import render_page
from envspec.lock.read import load
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.proof.records import read_records, refusal
from envspec.prove.smoke.report.read import KIND, load_report

FOLDER = ROOT / "docs" / "evidence"
SCHEMA = Path(envspec.prove.smoke.__file__).parent / "check.schema.json"


REPORTS = [path for path in sorted(FOLDER.glob("*.json")) if json.loads(path.read_text("utf-8"))["kind"] == KIND]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_a_kept_report_passed(path: Path) -> None:
    validator(SCHEMA).validate(json.loads(path.read_text("utf-8")))
    report = load_report(path)
    assert report.verdict == "pass" and report.complete
    row = next(line for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if path.name in line)
    assert report.headline.partition(" (")[0] in row
    assert report.device == "cuda" or "no GPU" in row
    assert refusal(report) is None


def test_every_file_is_a_record_that_proves_something() -> None:
    assert {proof.file for proof in read_records(FOLDER) if proof.rungs} == {
        path.name for path in FOLDER.glob("*.json")
    }


def test_every_record_is_of_today_s_lock() -> None:
    locks = [load(path) for path in (*ROOT.glob("locks/*/envspec.lock"), *FOLDER.glob("locks/*/envspec.lock"))]
    today = {(lock.name, one.name, slice_digest(slice_of(lock, one))) for lock in locks for one in lock}
    assert [one.file for one in read_records(FOLDER) if (one.spec, one.target, one.lock_digest) not in today] == []


@pytest.mark.slow
def test_the_evidence_page_says_how_far_each_target_is_proved() -> None:
    """After a lock has changed: make its records anew, or `python -c` with `envspec.app.evidence.write_tables`."""
    page = (FOLDER / "README.md").read_text("utf-8")
    assert render_page(page, FOLDER) == page
