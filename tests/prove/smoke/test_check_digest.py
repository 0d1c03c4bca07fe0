"""A report names the check that made it, and envspec compares that with what it carries."""

import json
import subprocess
import sys
from pathlib import Path

from smoke_samples import report

from envspec.export.carried import check_digest, check_files
from envspec.prove.smoke.report.read import report_json
from envspec.prove.smoke.run.foreground import finished_run
from envspec.prove.smoke.run.jobs import Submitted, read_submission, write_submission
from envspec.prove.smoke.run.process import FinishedProgram

OTHER = f"sha256:{'0' * 64}"


def said_by(check: Path) -> str:
    """What a copy of the check says of itself, by the standard library alone."""
    program = "import sys; sys.path.insert(0, sys.argv[1])\nfrom envspec_check.environment import check_digest\n"
    words = [sys.executable, "-I", "-B", "-c", f"{program}print(check_digest())", str(check)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_a_copy_knows_the_digest_that_envspec_has_of_it(tmp_path: Path) -> None:
    carried = check_files()
    for path, text in carried.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert said_by(tmp_path / "check") == check_digest(carried)
    with (tmp_path / "check" / "__main__.py").open("a") as file:
        file.write("# edited\n")
    assert said_by(tmp_path / "check") != check_digest(carried)


def test_a_report_by_another_check_than_the_carried_one_is_no_answer(tmp_path: Path) -> None:
    made, path = report(check_digest=OTHER), tmp_path / "check.json"
    path.write_text(json.dumps(report_json(made)), "utf-8")
    where = made.spec, made.target, "local", None, FinishedProgram(0, ""), path, None
    run = finished_run(*where, check_digest(check_files()))
    assert run.status == "error" and "is by another check than the carried one" in (run.reason or "")
    assert finished_run(*where, OTHER).status == "pass"


def test_submitted_jobs_keep_the_digest_of_what_they_carry(tmp_path: Path) -> None:
    write_submission(tmp_path, Submitted((), check=OTHER))
    assert read_submission(tmp_path).check == OTHER
