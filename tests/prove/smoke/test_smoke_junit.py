"""JUnit XML: its golden text, the form that CI systems expect, and what hostile texts may not do in it."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from envspec_check.report import junit as carried, summary
from hypothesis import given, settings
from smoke_golden import golden
from smoke_samples import failed, several
from smoke_strategies import HOSTILE, results
from support.examples import examples

from envspec.prove.smoke.report.junit import junit
from envspec.prove.smoke.report.read import report_of
from envspec.prove.smoke.report.result import CheckResult, Results, Run

TIME = re.compile(r"\d+\.\d{3}")


def by_the_schema(text: str) -> ET.Element:
    """The parsed file, after everything that the schemas of Jenkins and of Ant ask of it was looked at."""
    root = ET.fromstring(text.encode("utf-8"))
    assert root.tag == "testsuites" and set(root.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
    for key in ("tests", "failures", "errors", "skipped"):
        assert int(root.attrib[key]) == sum(int(suite.attrib[key]) for suite in root)
    for suite in root:
        assert suite.tag == "testsuite"
        assert set(suite.attrib) - {"timestamp"} == {
            "name", "tests", "failures", "errors", "skipped", "time", "hostname",
        }  # fmt: skip
        assert re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}", suite.get("timestamp", "2026-11-20T08:30:00"))
        tags = [child.tag for child in suite]
        assert tags == sorted(tags, key=["properties", "testcase", "system-out"].index), "their order is fixed"
        assert tags.count("properties") <= 1 and tags.count("system-out") == 1
        cases = suite.findall("testcase")
        assert cases and int(suite.attrib["tests"]) == len(cases)
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.attrib[key]) == sum(len(case.findall(tag)) for case in cases)
        for one in suite.iterfind("properties/property"):
            assert set(one.attrib) == {"name", "value"} and not len(one)
        for case in cases:
            assert set(case.attrib) == {"name", "classname", "time"} and TIME.fullmatch(case.attrib["time"])
            outcomes = [child for child in case if child.tag != "system-out"]
            assert len(outcomes) <= 1 and {child.tag for child in case} <= {"failure", "error", "skipped", "system-out"}
            for outcome in outcomes:
                assert "message" in outcome.attrib and set(outcome.attrib) <= {"message", "type"}
                assert outcome.tag == "skipped" or "type" in outcome.attrib
    return root


def test_golden() -> None:
    text = junit(several())
    assert text == golden("junit.xml", text)


def test_an_error_after_checks_keeps_them() -> None:
    report = failed().report
    run = Run("demo", "cu126-volta", "slurm", "error", "gpu", "the job was ended by its time limit", report)
    root = by_the_schema(junit(Results((run,))))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("9", "1", "1")


def test_nothing() -> None:
    assert by_the_schema(junit(Results(()))).get("tests") == "0"


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_hostile_texts_are_texts(text: str) -> None:
    from smoke_samples import report

    check = CheckResult("static.x", "static", "fail", False, 0.0, reason=text, remedy=text, output=text)
    root = by_the_schema(junit(Results((Run.from_report("demo", text.strip() or "x", text, report(checks=(check,))),))))
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "system-out",
    }  # fmt: skip
    said = root.findtext("testsuite/testcase/system-out") or ""
    assert said == re.sub(
        "[^\t\n -\ud7ff\ue000-\ufffd]", "", re.sub(r"\x1b\[\d+m", "", text.replace("\r\n", "\n").replace("\r", "\n"))
    )
    assert "\x1b" not in said and "[31m" not in said


@settings(max_examples=examples(30))
@given(results())
def test_any_results_are_well_formed(found: Results) -> None:
    root = by_the_schema(junit(found))
    assert len(root) == len(found.runs)
    assert int(root.get("failures", "")) == sum(check.status == "fail" for run in found.runs for check in run.checks)


MACHINE: dict[str, Any] = {
    "python": "3.11", "system": "Linux", "glibc": None, "cpus": 1, "memory_bytes": 1, "shm_bytes": None,
    "driver": None, "gpus": [],
}  # fmt: skip


def report(text: str, remedy: str | None, output: str | None) -> dict[str, Any]:
    checks: list[dict[str, Any]] = [
        {
            "name": f"static.{status}", "group": "static", "needs_gpu": False, "status": status, "seconds": 0.125,
            "reason": None if status == "pass" else text, "remedy": remedy if status == "fail" else None,
            "details": {}, "output": output,
        }
        for status in ("pass", "fail", "skip")
    ]  # fmt: skip
    return {
        "schema": 1, "kind": "envspec-check", "spec": "s", "target": "t", "lock_digest": "", "fingerprint": "",
        "workload": "basic", "steps": 1, "device": "cpu", "cuda": None, "quick": False, "seed": 0,
        "started": "2026-11-21T12:00:00Z", "seconds": 1.5, "machine": MACHINE, "torch": None, "checks": checks,
        "figures": [], "curves": {}, "complete": True, "summary": summary(checks),
    }  # fmt: skip


def said(text: str) -> Any:
    """Of each suite what both know: its counts and time, and its cases with all that is in them."""
    (suite,) = ET.fromstring(text.encode())
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "time", "timestamp")}
    cases = [
        (case.attrib, [(child.tag, child.attrib, child.text) for child in case]) for case in suite.iter("testcase")
    ]
    return counts, cases, suite.findtext("system-out")


@pytest.mark.parametrize(
    "text", ["why", "a < b & \"c\" ]]> 'd'\nand more\tof it", "x\x00\x08\ufffe y", "é 中 \U0001f600"]
)
@pytest.mark.parametrize("remedy", [None, "do <this> & that"])
@pytest.mark.parametrize("output", [None, "one\n<two> & three\n"])
def test_both_say_the_same(text: str, remedy: str | None, output: str | None) -> None:
    made = report(text, remedy, output)
    run = Run("s", "t", "local", "fail", reason="1 failed", report=report_of(made, "x"))
    ours, theirs = said(junit(Results((run,)))), said(carried(made))
    assert ours[:2] == theirs[:2]
