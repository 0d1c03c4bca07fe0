"""The check writes JUnit without envspec, and envspec for all runs: of one report, both say the same of each check."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest
from envspec_check.report import junit as carried, summary

from envspec.prove.smoke.report.junit import junit
from envspec.prove.smoke.report.read import report_of
from envspec.prove.smoke.report.result import Results, Run

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
