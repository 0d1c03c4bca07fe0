"""Runs as JUnit XML, which CI systems show: a testsuite per run, a testcase per check.

The form is the common part of Jenkins's and Ant's schemas. A run without an answer has one testcase, `run`, with an
error, so that no reader takes an empty suite for a pass. Figures are the suite's properties.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from envspec.prove.smoke.report import words
from envspec.prove.smoke.report.result import CheckResult, Results, Run

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


def junit(results: Results) -> str:
    """Render the file's text, to be written in UTF-8."""
    suites = [_suite(run) for run in results.runs]
    total = {
        key: sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "failures", "errors", "skipped")
    }
    root = ET.Element("testsuites", {"name": "envspec smoke", **{key: str(value) for key, value in total.items()}})
    root.set("time", _seconds(sum(run.report.seconds for run in results.runs if run.report)))
    root.extend(suites)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(run: Run) -> ET.Element:
    name = f"{run.spec}.{run.target}"
    cases = [_case(check, name) for check in run.checks]
    if run.status == "error" or not cases:
        cases.append(_outcome(run, name))
    suite = ET.Element("testsuite", {"name": _text(f"{name} ({words.place(run)})"), "tests": str(len(cases))})
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", _seconds(run.report.seconds if run.report else 0))
    started = _TIME.match(run.report.started) if run.report else None
    if started:
        suite.set("timestamp", started[1])
    suite.set("hostname", _text(run.where or "localhost"))
    properties = [(key, value) for key, value in _properties(run) if value]
    if properties:
        listed = ET.SubElement(suite, "properties")
        for key, value in properties:
            ET.SubElement(listed, "property", {"name": _text(key), "value": _text(value)})
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = _text(run.headline)
    return suite


def _properties(run: Run) -> list[tuple[str, str]]:
    properties = [("spec", run.spec), ("target", run.target), ("runner", run.runner), ("log", run.log or "")]
    if run.report is None:
        return properties
    properties += list(words.facts(run.report))
    for figure in run.report.figures:
        reference = words.reference_words(figure)
        verdict = f"; {figure.verdict}: {reference}" if figure.verdict else f"; {reference}" if reference else ""
        properties.append((f"figure {figure.name}", words.measurement(figure) + verdict))
    return properties


def _case(check: CheckResult, suite: str) -> ET.Element:
    case = ET.Element(
        "testcase", {"name": _text(check.name), "classname": _text(suite), "time": _seconds(check.seconds)}
    )
    if check.status == "fail":
        lines = [check.reason or "the check failed", *([f"remedy: {check.remedy}"] if check.remedy else [])]
        failure = ET.SubElement(case, "failure", {"message": _line(lines[0]), "type": _text(check.group)})
        failure.text = _text("\n".join(lines))
    elif check.status == "skip":
        ET.SubElement(case, "skipped", {"message": _line(check.reason or "no reason given")})
    if check.output:
        ET.SubElement(case, "system-out").text = _text(check.output)
    return case


def _outcome(run: Run, suite: str) -> ET.Element:
    """Make the testcase of a whole run without checks, or without an answer."""
    case = ET.Element("testcase", {"name": "run", "classname": _text(suite), "time": _seconds(0)})
    reason = run.reason or run.headline
    if run.status == "error":
        ET.SubElement(case, "error", {"message": _line(reason), "type": "run"}).text = _text(reason)
    else:
        ET.SubElement(case, "skipped", {"message": _line(reason)})
    return case


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _line(text: str) -> str:
    """Give a text's first line: a message is an attribute, and CI systems show it as a heading."""
    return _text(text.strip().partition("\n")[0])


def _text(text: str) -> str:
    """Remove the characters that XML 1.0 can't hold; colour codes go first, so that no part of them stays."""
    return _ILLEGAL.sub("", _COLOUR.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
