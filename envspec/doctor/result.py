"""What a check of the machine comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envspec.rules.finding import Finding

Status = Literal["ok", "none", "unknown"]


@dataclass(frozen=True)
class Result:
    """The answer of one check.

    ok       it was looked at, and it is as the findings say (good, when there are none)
    none     it isn't here, so nothing was tested
    unknown  it couldn't be looked at

    `summary` says in a few words what was found, why there is none, or why it isn't known.
    """

    check: str
    status: Status
    summary: str
    findings: tuple[Finding, ...] = ()

    @property
    def state(self) -> str:
        """The worst that there is to say: error, warning, else the status."""
        severities = {finding.severity for finding in self.findings}
        return next((s for s in ("error", "warning") if s in severities), self.status)
