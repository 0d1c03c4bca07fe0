"""The whole of an audit as one value, and as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envspec.audit.model import LEVELS, Finding, Package
from envspec.audit.rules import CODES

_PACKAGE = re.compile(r'^\[\[(pip|conda)\]\]\nname = "([^"]*)"\nversion = "([^"]*)"$', re.MULTILINE)
_LEVEL_OF_CODE = {"yanked": "warning", "young": "warning", "source": "note"}
# GitHub sorts by this CVSS-like number; the words are those of GitHub's own advisories
_SECURITY_SEVERITY = {"critical": "9.5", "high": "8.0", "moderate": "5.5", "medium": "5.5", "low": "3.0"}


@dataclass(frozen=True)
class Database:
    """Where the known vulnerabilities are from: its name without credentials, and the time of the oldest answer used
    (RFC 3339, UTC), None where there is none."""

    name: str
    oldest: str | None


@dataclass(frozen=True)
class Report:
    """One audited lock.

    not_asked  packages that no database could say anything of, by the reason
    unread     what couldn't be read: with any, the audit is incomplete and no pass
    """

    spec: str
    lock: str
    targets: tuple[str, ...]
    packages: tuple[Package, ...]
    database: Database
    findings: tuple[Finding, ...]
    not_asked: Mapping[str, tuple[str, ...]]
    unread: tuple[str, ...]

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Kind and name of each package, however many versions of it there are."""
        return frozenset((package.kind, package.name) for package in self.packages)

    def at_least(self, level: str) -> tuple[Finding, ...]:
        """The findings that count: as bad as `level` or worse, and not ignored."""
        least = LEVELS.index(level)
        return tuple(one for one in self.findings if one.ignored is None and LEVELS.index(one.level) >= least)


def lines_of(lock_text: str) -> dict[tuple[str, str, str], int]:
    """The line of each package in a lock's text, counted from 1, by kind, name and version."""
    found: dict[tuple[str, str, str], int] = {}
    for match in _PACKAGE.finditer(lock_text):
        found.setdefault((match[1], match[2], match[3]), lock_text.count("\n", 0, match.start()) + 1)
    return found


def sarif(report: Report, lock_text: str, version: str) -> dict[str, Any]:
    """The report for tools that read SARIF. `version` is envspec's. Ignored findings are in it, as suppressed."""
    lines = lines_of(lock_text)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "envspec audit",
                        "semanticVersion": version,
                        "rules": [_rule(code, text) for code, text in CODES.items()],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not report.unread,
                        "toolExecutionNotifications": [
                            {"level": "error", "message": {"text": text}} for text in report.unread
                        ],
                    }
                ],
                "results": [_result(one, report.lock, lines) for one in report.findings],
            }
        ],
    }


def _rule(code: str, text: str) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": text},
        "defaultConfiguration": {"level": _LEVEL_OF_CODE.get(code, "error")},
    }


def _result(finding: Finding, lock: str, lines: Mapping[tuple[str, str, str], int]) -> dict[str, Any]:
    package = finding.package
    remedy = f". {finding.remedy[:1].upper()}{finding.remedy[1:]}" if finding.remedy else ""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": list(CODES).index(finding.code),
        "level": finding.level,
        "message": {"text": f"{package.name} {package.version}: {finding.message}{remedy}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": lock},
                    "region": {"startLine": lines.get((package.kind, package.name, package.version), 1)},
                }
            }
        ],
        "partialFingerprints": {"envspec/1": _fingerprint(finding, package)},
        "properties": {"targets": list(package.targets)},
    }
    if finding.advisory:
        result["properties"]["advisory"] = finding.advisory.id
        severity = _SECURITY_SEVERITY.get((finding.advisory.severity or "").lower())
        if severity:
            result["properties"]["security-severity"] = severity
    if finding.ignored is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.ignored}]
    return result


def _fingerprint(finding: Finding, package: Package) -> str:
    what = finding.advisory.id if finding.advisory else finding.code
    return f"{package.kind}:{package.name}:{package.version}:{what}"
