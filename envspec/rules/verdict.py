"""The rules' verdict on a target, which all callers read."""

from __future__ import annotations

from dataclasses import dataclass

from envspec.base.finding import Finding, errors
from envspec.rules.wanted import Wanted


@dataclass(frozen=True)
class Verdict:
    """The rules' answer on one target.

    findings  everything that the facts say against the target, errors first; empty if it can be locked as it stands
    wanted    the torch that the target asks for, by name or through torchvision alone; None without one
    feasible  the known torch releases that the target admits and that work on it, newest first
    narrowed  the newest release with a build for the target isn't in `feasible`: the resolver needs that list
    """

    findings: tuple[Finding, ...] = ()
    wanted: Wanted | None = None
    feasible: tuple[str, ...] = ()
    narrowed: bool = False

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop a lock."""
        return errors(self.findings)
