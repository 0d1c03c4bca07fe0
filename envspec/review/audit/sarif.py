"""An audit as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/), in the parts that code scanning reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from envspec.base.finding import LEVELS, Finding
from envspec.review.annotations import Lines, lines_of
from envspec.review.audit.model import Advisory, subject
from envspec.review.audit.report import AuditReport, remedy_of
from envspec.review.audit.rules import ENDED, UNUSED, audit_codes

_LEVEL_OF_CODE = {"yanked": "warning", ENDED: "warning", UNUSED: "warning"}
# GitHub sorts by this CVSS-like number of a rule; the words are those of GitHub's own advisories
_SECURITY_SEVERITY = {"critical": "9.5", "high": "8.0", "moderate": "5.5", "medium": "5.5", "low": "3.0"}
_ROOT = "%SRCROOT%"
_LINK = re.compile(r"https?://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")


def _line_of(finding: Finding, lines: Lines) -> int:
    """Return the line of a finding's package, or of a source that is built with it; 1 for a finding without a
    package."""
    package = finding.evidence.package
    if package is None:
        return 1
    of_sources = (line for (kind, name, _), line in lines.items() if kind == "pip" and name in package.builds)
    return lines.get((package.kind, package.name, package.version)) or next(of_sources, 1)


def sarif(report: AuditReport, lock: PurePosixPath, lock_text: str, version: str) -> dict[str, Any]:
    """Render the report as SARIF. `lock` is the lock's path from the root of its repository, `version` is envspec's.
    Ignored findings are included, as suppressed.

    Each advisory is a rule of its own: GitHub takes the severity from the rule, not from the result.
    """
    lines = lines_of(lock_text)
    rules = {code: _rule(code, text) for code, text in audit_codes().items()}
    for finding in report.findings:
        if advisory := finding.evidence.advisory:
            _describe(rules.setdefault(advisory.id, _rule_of(advisory)), advisory)
    numbers = {rule: number for number, rule in enumerate(rules)}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {"name": "envspec audit", "semanticVersion": version, "rules": list(rules.values())}
                },
                # code scanning keeps a lock's results apart from another's by it
                "automationDetails": {"id": f"envspec-audit/{lock}/"},
                "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the lock's repository."}}},
                "invocations": [
                    {
                        "executionSuccessful": not report.unread,
                        "toolExecutionNotifications": [
                            *({"level": "error", "message": {"text": text}} for text in report.unread),
                            *({"level": "note", "message": {"text": text}} for text in _unchecked_lines(report)),
                        ],
                    }
                ],
                "results": [
                    _result(finding, report.spec, quote(str(lock)), lines, numbers) for finding in report.findings
                ],
            }
        ],
    }


def _unchecked_lines(report: AuditReport) -> list[str]:
    return [
        f"not checked for {', '.join(unchecked.codes)}: {unchecked.reason}: {', '.join(unchecked.packages)}"
        for unchecked in report.not_asked
    ]


def _rule(identifier: str, text: str, level: str | None = None) -> dict[str, Any]:
    return {
        "id": identifier,
        "shortDescription": {"text": text},
        "fullDescription": {"text": text},
        "help": {"text": text},
        "defaultConfiguration": {"level": level or _LEVEL_OF_CODE.get(identifier, "error")},
    }


def _rule_of(advisory: Advisory) -> dict[str, Any]:
    also = f" ({', '.join(advisory.aliases)})" if advisory.aliases else ""
    return {
        **_rule(advisory.id, f"{advisory.id}{also}: {advisory.summary or audit_codes()['vulnerability']}", "error"),
        "properties": {"tags": ["security", "vulnerability"]},
    }


def _describe(rule: dict[str, Any], advisory: Advisory) -> None:
    """Complete a rule with the facts on its advisory that only some databases have."""
    severity = _SECURITY_SEVERITY.get((advisory.severity or "").lower())
    if severity:
        rule.setdefault("properties", {}).setdefault("security-severity", severity)
    if advisory.link and _LINK.fullmatch(advisory.link):
        rule.setdefault("helpUri", advisory.link)


def _result(finding: Finding, spec: str, uri: str, lines: Lines, numbers: Mapping[str, int]) -> dict[str, Any]:
    title = f"{subject(finding)}: " if finding.package else ""
    rule = advisory.id if (advisory := finding.evidence.advisory) else finding.code
    message = finding.message
    if remedy := remedy_of(finding, spec):
        # a command stays as it is typed
        begins = f"Run {remedy}" if remedy.startswith("envspec ") else f"{remedy[:1].upper()}{remedy[1:]}"
        message = f"{message.rstrip(' .')}. {begins}"
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": numbers[rule],
        "level": LEVELS[finding.severity],
        "message": {"text": f"{title}{message}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": uri, "uriBaseId": _ROOT},
                    "region": {"startLine": _line_of(finding, lines)},
                }
            }
        ],
        "partialFingerprints": {"envspec/1": _fingerprint(rule, finding)},
        "properties": {"targets": list(finding.targets), "code": finding.code},
    }
    if finding.accepted is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.accepted}]
    return result


def _fingerprint(rule: str, finding: Finding) -> str:
    package = finding.evidence.package
    if package is None:
        return f"{rule}:{finding.message}"
    return f"{package.kind}:{package.name}:{package.version}:{rule}"
