"""The answer of one check of a machine."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from envspec.base.finding import Finding

Status = Literal["ok", "none", "unknown"]


class Result(Struct, frozen=True):
    """The answer of one check.

    ok       the check ran, and its findings say what is wrong (without findings, all is well)
    none     the machine doesn't have it, so there was nothing to check
    unknown  the check couldn't run

    `summary` says in a few words what the check found, or why it couldn't.
    """

    check: str
    status: Status
    summary: str
    findings: tuple[Finding, ...] = ()

    @property
    def state(self) -> str:
        """The worst severity, error or warning, else the status."""
        severities = {finding.severity for finding in self.findings}
        return next((s for s in ("error", "warning") if s in severities), self.status)
