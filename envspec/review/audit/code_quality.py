"""An audit as GitLab's merge requests show it: a Code Quality report
(https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath

from envspec.base.texts import clean_text
from envspec.review.audit.model import subject
from envspec.review.audit.report import AuditReport
from envspec.review.audit.sarif import line_of, lines_of

_SEVERITIES = {"error": "critical", "warning": "major", "info": "info"}


def code_quality(report: AuditReport, lock: PurePosixPath, lock_text: str) -> str:
    """Render the findings that the spec doesn't accept, at the lines of the lock. `lock` is its path from the root of
    its repository."""
    lines = lines_of(lock_text)
    rows = []
    for one in report.findings:
        if one.accepted is None:
            told = f"{subject(one)}: {one.message}"
            known = f"{lock}\n{one.code}\n{subject(one)}\n{one.evidence.advisory.id if one.evidence.advisory else ''}"
            rows.append(
                {
                    "description": clean_text(told),
                    "check_name": f"envspec-audit-{one.code}",
                    # without the line, so that GitLab knows it again where the lock grew above it
                    "fingerprint": hashlib.sha256(known.encode()).hexdigest(),
                    "severity": _SEVERITIES[one.severity],
                    "location": {"path": str(lock), "lines": {"begin": line_of(one, lines)}},
                }
            )
    return json.dumps(rows, indent=1, ensure_ascii=False)
