"""JUnit XML: its golden text, the form that CI systems expect, and what hostile texts may not do in it."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from smoke_golden import golden
from smoke_samples import LAST_WORDS, broke, failed, left_out, several
from smoke_strategies import HOSTILE, results
from support.examples import examples

from envspec.prove.smoke.report.junit import junit
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


def test_the_form() -> None:
    root = by_the_schema(junit(several()))
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("24", "1", "1", "6")


def test_a_failed_check() -> None:
    root = by_the_schema(junit(Results((failed(),))))
    case = root.find("testsuite/testcase[@name='compile.eager']")
    assert case is not None and case.get("classname") == "demo.cu126-volta"
    failure = case.find("failure")
    assert failure is not None and failure.get("message") == "torch.compile needs a C compiler, and there is none"
    assert failure.text and "remedy: install gcc" in failure.text
    assert case.findtext("system-out") == LAST_WORDS


def test_a_run_without_an_answer_is_an_error() -> None:
    root = by_the_schema(junit(Results((broke(),))))
    case = root.find("testsuite/testcase")
    assert case is not None and case.get("name") == "run"
    assert case.findtext("error") == "the image couldn't be built\nexit code 255"


def test_a_run_left_out_is_skipped() -> None:
    root = by_the_schema(junit(Results((left_out(),))))
    assert (root.get("tests"), root.get("skipped"), root.get("failures")) == ("1", "1", "0")


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
