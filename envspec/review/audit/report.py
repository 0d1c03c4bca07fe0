"""The whole of an audit as one value."""

from __future__ import annotations

from dataclasses import dataclass

from envspec.base.finding import LEVELS, Finding
from envspec.review.audit.model import AuditedPackage, NotAsked


@dataclass(frozen=True)
class Database:
    """The source of the known vulnerabilities: its name without credentials, and the time of the oldest answer used
    (RFC 3339, UTC), None where there is none."""

    name: str
    oldest: str | None


@dataclass(frozen=True)
class AuditReport:
    """One audited lock.

    releases   each package with the day of its newest file and its authors' page, None where that isn't known
    not_asked  what wasn't looked for in some packages, with the reason
    unread     what should have been read and wasn't: with any, the audit is incomplete and doesn't pass
    """

    spec: str
    lock: str
    targets: tuple[str, ...]
    packages: tuple[AuditedPackage, ...]
    database: Database
    findings: tuple[Finding, ...]
    not_asked: tuple[NotAsked, ...]
    unread: tuple[str, ...]
    releases: tuple[tuple[AuditedPackage, str | None, str | None], ...] = ()

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Kind and name of each package, once for all its versions."""
        return frozenset((package.kind, package.name) for package in self.packages)

    def at_least(self, level: str) -> tuple[Finding, ...]:
        """Return the findings that count: at `level` or worse, and not ignored."""
        levels = list(LEVELS.values())
        counting = levels[levels.index(level) :]
        return tuple(one for one in self.findings if one.accepted is None and LEVELS[one.severity] in counting)
