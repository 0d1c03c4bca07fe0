"""The audit as SARIF, by SARIF's own words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath

from audit_cases import LOCK, about, checked_sarif, found, report
from support.audit import package

from envspec.review.annotations import code_quality
from envspec.review.audit.model import Advisory, Facts, NotAsked
from envspec.review.audit.rules import audit_codes
from envspec.review.audit.sarif import annotate
from envspec.spec.model import Audit, Waiver


def test_sarif() -> None:
    lib = package("lib", source="sdist")
    facts = about(
        lib, Advisory("A", ("CVE-1",), "Bad.", link="https://example.org/A", severity="moderate"), Advisory("B")
    )
    run = checked_sarif(report(*found(lib, facts=facts, accepted=Audit(ignore={"B": Waiver("no")}))))
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert list(rules) == [*audit_codes(), "A", "B"]
    assert rules["A"]["properties"]["security-severity"] == "5.5", "GitHub reads it from the rule"
    assert (
        rules["A"]["helpUri"] == "https://example.org/A" and rules["A"]["shortDescription"]["text"] == "A (CVE-1): Bad."
    )
    assert rules["B"]["properties"] == {"tags": ["security", "vulnerability"]} and "helpUri" not in rules["B"]
    assert run["invocations"][0]["executionSuccessful"] is True
    first, second, third = run["results"]
    assert (first["ruleId"], first["level"]) == ("A", "error")
    assert first["message"]["text"] == "lib 1.0: A (CVE-1), moderate: Bad.. No release fixes it yet"
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "locks/s/envspec.lock", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 8},
    }
    assert first["properties"] == {"targets": ["cpu"], "code": "vulnerability"}
    assert first["partialFingerprints"] == {"envspec/1": "pip:lib:1.0:A"} and "suppressions" not in first
    assert second["ruleId"] == "source" and second["level"] == "note"
    assert third["suppressions"] == [{"kind": "inSource", "justification": "no"}]


def test_gitlab_s_report_has_what_the_spec_does_not_accept() -> None:
    lib = package("lib", source="sdist")
    facts = about(lib, Advisory("A", summary="Bad\x1b."), Advisory("B"))
    made = report(*found(lib, facts=facts, accepted=Audit(ignore={"B": Waiver("no")})))
    first, second = json.loads(
        code_quality(annotate(made, LOCK), PurePosixPath("locks/s/envspec.lock"), "envspec-audit")
    )
    assert (first["check_name"], first["severity"]) == ("envspec-audit-vulnerability", "critical")
    assert first["location"] == {"path": "locks/s/envspec.lock", "lines": {"begin": 8}}
    assert first["description"].startswith("lib 1.0: A: Bad") and "\x1b" not in first["description"]
    assert second["severity"] == "info" and len({first["fingerprint"], second["fingerprint"]}) == 2


def test_sarif_of_one_advisory_in_two_packages() -> None:
    lib, other = package("lib"), package("other")
    facts = Facts({**about(lib, Advisory("A")).answers, **about(other, Advisory("A", severity="high")).answers})
    run = checked_sarif(report(*found(lib, other, facts=facts)))
    assert [result["ruleId"] for result in run["results"]] == ["A", "A"]
    (rule,) = (rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "A")
    assert rule["properties"]["security-severity"] == "8.0"


def test_sarif_takes_what_a_database_says_as_text() -> None:
    lib = package("lib")
    evil = Advisory("yanked", summary="x", link="javascript:alert(1)", severity="critical")
    run = checked_sarif(report(*found(lib, facts=about(lib, evil))))
    assert "javascript" not in str(run)


def test_sarif_names_the_lock_as_a_uri() -> None:
    lib = package("lib", source="sdist")
    run = checked_sarif(report(*found(lib)), PurePosixPath("my locks/100%/c:d/envspec.lock"))
    (result,) = run["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "my%20locks/100%25/c%3Ad/envspec.lock"


def test_sarif_says_what_was_not_looked_for() -> None:
    left = NotAsked(("yanked",), "conda packages", ("a", "b"))
    (invocation,) = checked_sarif(replace(report(), not_asked=(left,)))["invocations"]
    assert invocation["executionSuccessful"] is True
    (note,) = invocation["toolExecutionNotifications"]
    assert (note["level"], note["message"]["text"]) == ("note", "not checked for yanked: conda packages: a, b")


def test_sarif_of_an_incomplete_audit() -> None:
    run = checked_sarif(report(unread=("nobody answered",)))
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"] == [{"level": "error", "message": {"text": "nobody answered"}}]
