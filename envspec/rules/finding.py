"""What a check has to say: one finding, with its place and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envspec.errors import Place

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing a rule found.

    error    it can't work as it stands
    warning  it may not work, or only in part
    info     it works, and there is something to know

    `code` is stable and for machines; `place` is where in the spec it comes from; `remedy` is the nearest change that
    would work, or None when there is nothing to change.
    """

    severity: Severity
    code: str
    message: str
    place: Place | None = None
    remedy: str | None = None


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that stop a lock."""
    return tuple(finding for finding in findings if finding.severity == "error")
