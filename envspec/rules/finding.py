"""Findings: what a rule found, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envspec.base.errors import Place
from envspec.packages.requirement import head_of

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing a rule found.

    error    the target can't work as it stands
    warning  the target may not work, or only in part
    info     the target works, and there is something to know

    `code` is stable and for machines; `place` is the cause's place in the spec; `remedy` is the nearest change that
    works, or None if there is nothing to change. `bound` (PEP 508) admits the versions without the fault, where it lies
    in a pin: the target may be solved again with it. `outgrown`: the pin is made for less than the target has, so an
    older release that doesn't name what it has is no answer.
    """

    severity: Severity
    code: str
    message: str
    place: Place | None = None
    remedy: str | None = None
    bound: str | None = None
    outgrown: bool = False

    @property
    def package(self) -> str | None:
        """The package that it is about, by its normalised name, where it lies in a pin."""
        return head_of(self.bound).name if self.bound else None


def errors(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings that stop a lock."""
    return tuple(finding for finding in findings if finding.severity == "error")
